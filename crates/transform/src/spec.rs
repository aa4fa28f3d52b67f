//! What the XML says about a transform: `zlib:5`, `zfp:accuracy=0.001`, `blosc:compressor=lz4,shuffle=byte,lvl=5`.

use crate::Block;
use crate::codec::{CODECS, Codec, Encode, find};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// A transform with its parameters checked.
#[derive(Debug)]
pub struct Spec {
    codec: &'static dyn Codec,
    encoder: Box<dyn Encode>,
}

impl Spec {
    /// Reads `name`, or `name:item,item`, an item being `key=value` or a value alone. `None` for `none` and nothing.
    ///
    /// # Errors
    /// `Config` for an unknown parameter or a bad value, naming what is known; `Unsupported` for transforms of ADIOS
    /// that are not built in, `Config` for others.
    pub fn parse(text: &str) -> Result<Option<Spec>> {
        let (name, items) = match text.split_once(':') {
            Some((name, items)) => (name.trim(), items),
            None => (text.trim(), ""),
        };
        if name.is_empty() || name.eq_ignore_ascii_case("none") {
            return Ok(None);
        }
        let Some(codec) = find(name) else {
            let known = CODECS.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ");
            let kind = if is_of_adios1(name) { ErrorKind::Unsupported } else { ErrorKind::Config };
            return Err(Error::new(kind, format!("transform {name:?} is not built in; {known} are")));
        };
        let items = items.split(',').map(str::trim).filter(|i| !i.is_empty());
        let items = items.map(|item| match item.split_once('=') {
            Some((key, value)) => (key.trim().to_string(), Some(value.trim().to_string())),
            None => (item.to_string(), None),
        });
        let mut given = Given { codec, items: items.collect() };
        let encoder = codec.configure(&mut given)?;
        given.nothing_left()?;
        Ok(Some(Spec { codec, encoder }))
    }

    /// Its name, as files have it.
    pub fn name(&self) -> &'static str {
        self.codec.name()
    }

    /// The transform.
    pub fn codec(&self) -> &'static dyn Codec {
        self.codec
    }

    pub(crate) fn encoder(&self) -> &dyn Encode {
        &*self.encoder
    }

    /// What is odd about it without being wrong, for whoever reads a report.
    pub fn remark(&self) -> Option<String> {
        self.encoder.remark()
    }

    /// Whether blocks of this type and number of dimensions can be transformed.
    ///
    /// # Errors
    /// `Unsupported` saying what can.
    pub fn suits(&self, element: ElementType, dimensions: usize) -> Result<()> {
        if element.is_text() || dimensions == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "single values and texts are not transformed"));
        }
        self.encoder.suits(element, dimensions)
    }

    /// Most bytes that [`crate::encode_into`] appends for a block.
    ///
    /// # Errors
    /// `OutOfBounds` for a block too large to count.
    pub fn room(&self, block: &Block<'_>) -> Result<u64> {
        self.encoder.room(block)
    }

    /// Memory that encoding a block of so many bytes takes beside its output, about.
    pub fn working_memory(&self, bytes: u64) -> u64 {
        self.encoder.working_memory(bytes)
    }

    /// Metadata of a block stored as it is; `None` where this transform has no way to say so.
    pub fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        self.encoder.raw(block)
    }
}

/// Whether ADIOS 1.13 can be built with a transform of this name that is not built in here.
pub fn is_of_adios1(name: &str) -> bool {
    FOREIGN.iter().any(|f| f.eq_ignore_ascii_case(name))
}

/// Transforms that ADIOS 1.13 can be built with and we are not.
const FOREIGN: &[&str] = &["szip", "isobar", "aplod", "alacrity", "sz", "mgard"];

/// Parameters as given; each is taken by the transform that knows it.
#[derive(Debug)]
pub struct Given {
    codec: &'static dyn Codec,
    items: Vec<(String, Option<String>)>,
}

impl Given {
    /// An error about a parameter.
    pub fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Config, format!("transform {}: {what}", self.codec.name()))
    }

    /// The value of a key, the last one given.
    pub fn text(&mut self, key: &str) -> Result<Option<String>> {
        let mut found = None;
        for (_, value) in self.items.extract_if(.., |(k, _)| k == key) {
            found = Some(value);
        }
        match found {
            None => Ok(None),
            Some(Some(value)) if !value.is_empty() => Ok(Some(value)),
            Some(_) => Err(self.wrong(format!("{key} has no value"))),
        }
    }

    /// The value of a key as a number in these bounds.
    pub fn number<T>(&mut self, key: &str, bounds: std::ops::RangeInclusive<T>) -> Result<Option<T>>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.text(key)? else { return Ok(None) };
        self.in_bounds(&text, key, bounds).map(Some)
    }

    /// The one value given without a key, as a number in these bounds.
    pub fn level(&mut self, bounds: std::ops::RangeInclusive<i32>) -> Result<Option<i32>> {
        match self.items.as_slice() {
            [(text, None)] => {
                let text = text.clone();
                self.items.clear();
                self.in_bounds(&text, "the level", bounds).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn in_bounds<T>(&self, text: &str, key: &str, bounds: std::ops::RangeInclusive<T>) -> Result<T>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        text.parse().ok().filter(|n| bounds.contains(n)).ok_or_else(|| {
            self.wrong(format!("{key} is {text:?}, expected a number from {} to {}", bounds.start(), bounds.end()))
        })
    }

    fn nothing_left(&self) -> Result<()> {
        let Some((key, _)) = self.items.first() else { return Ok(()) };
        let known: Vec<&str> = self.codec.parameters().iter().map(|p| p.key).collect();
        let known = if known.is_empty() { "it has none".to_string() } else { format!("it has {}", known.join(", ")) };
        Err(self.wrong(format!("no parameter {key:?}; {known}")))
    }
}

//! The specification of a transform in the XML: `zlib:5`, `zfp:accuracy=0.001`, `blosc:compressor=lz4,shuffle=byte,lvl=5`.

use crate::Block;
use crate::codec::{CODECS, Codec, Encode, LEVEL, find, pco};
use crate::error_bound::{ErrorBound, ErrorRecord};
use thalweg_params::Parameters;
use thalweg_types::transform_names::is_transform_name;
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// A transform with checked parameters.
#[derive(Debug)]
pub struct Spec {
    codec: &'static dyn Codec,
    encoder: Box<dyn Encode>,
}

impl Spec {
    /// Parses `name`, or `name:item,item`, where an item is `key=value` or only a value. `None` for `none` and empty text.
    ///
    /// # Errors
    /// `Config` for an unknown parameter or an invalid value, with the known ones; `Unsupported` for transforms of ADIOS that are
    /// not built in, `Config` for other names.
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
        let parameters = parse_parameters(codec, items)?;
        let encoder = codec.configure(&parameters)?;
        Ok(Some(Spec { codec, encoder }))
    }

    /// Its name in files.
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

    /// A remark about valid but unusual parameters, for reports.
    pub fn remark(&self) -> Option<String> {
        self.encoder.remark()
    }

    /// Whether blocks of this type and number of dimensions can be transformed.
    ///
    /// # Errors
    /// `Unsupported`, with the supported types.
    pub fn suits(&self, element: ElementType, dimensions: usize) -> Result<()> {
        if element.is_text() || dimensions == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "single values and texts are not transformed"));
        }
        self.encoder.suits(element, dimensions)
    }

    /// The error bound that is measured for each block; `None`: loss, if any, is not measured.
    pub fn error_bound(&self) -> Option<ErrorBound> {
        self.encoder.error_bound()
    }

    /// Most bytes that [`crate::encode_into`] appends for a block.
    ///
    /// # Errors
    /// `OutOfBounds` for a block too large to count.
    pub fn room(&self, block: &Block<'_>) -> Result<u64> {
        self.encoder.room(block)
    }

    /// Bytes of a block's values as readers get them, which [`crate::encode_into`] needs if there is an error bound; else 0.
    ///
    /// # Errors
    /// As [`Spec::room`].
    pub fn read_back(&self, block: &Block<'_>) -> Result<u64> {
        if self.error_bound().is_some() { block.bytes() } else { Ok(0) }
    }

    /// Approximate memory for encoding a block, in addition to its output and the values that are read back.
    ///
    /// # Errors
    /// As [`Spec::room`].
    pub fn working_memory(&self, block: &Block<'_>) -> Result<u64> {
        let encoding = self.encoder.working_memory(block.bytes()?);
        if self.error_bound().is_none() {
            return Ok(encoding);
        }
        // One after the other.
        Ok(encoding.max(self.encoder.decoding_memory(block)?).max(pco::working_memory(block.bytes()?)))
    }

    /// Metadata of a block that is stored unchanged; `None` if the transform cannot express this.
    pub fn raw(&self, block: &Block<'_>) -> Option<Vec<u8>> {
        let Some(bound) = self.error_bound() else { return self.encoder.raw(block) };
        let mut metadata = self.encoder.lossless_metadata(block, block.bytes().ok()?).ok()?;
        ErrorRecord::without_room(bound).append_to(&mut metadata);
        Some(metadata)
    }
}

/// Whether ADIOS 1.13 has a transform of this name that is not built in here.
pub fn is_of_adios1(name: &str) -> bool {
    is_transform_name(name) && !name.eq_ignore_ascii_case("none") && find(name).is_none()
}

/// The parameters after a transform's name: `key=value`, separated by commas; a value without a key is the level, if the
/// transform has one.
fn parse_parameters(codec: &dyn Codec, items: &str) -> Result<Parameters> {
    let mut parameters = Parameters::default().of(format!("transform {}", codec.name()));
    let known = codec.parameters();
    for item in items.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match item.split_once('=') {
            Some((key, value)) => parameters.push(key.trim(), value.trim()),
            None if !known.iter().any(|p| p.is(LEVEL)) => parameters.push(item, ""),
            None if parameters.pairs().iter().any(|(key, _)| key == LEVEL) => {
                return Err(parameters.wrong(format!("{LEVEL} is given twice, the second time as {item}")));
            }
            None => parameters.push(LEVEL, item),
        }
    }
    parameters.check_known(known)?;
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::CODECS;

    #[test]
    fn every_transform_has_a_name_that_configurations_may_contain() {
        for codec in CODECS {
            assert!(is_transform_name(codec.name()), "{}", codec.name());
            assert!(!is_of_adios1(codec.name()), "{}", codec.name());
        }
    }

    #[test]
    fn names_that_only_adios_1_13_implements_are_told_from_unknown_names() {
        assert_eq!(["szip", "APLOD", "zlib", "none", "zlb"].map(is_of_adios1), [true, true, false, false, false]);
    }
}

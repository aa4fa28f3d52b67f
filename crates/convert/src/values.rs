//! Values of a BP file for the parts of a plan: one thread reads, the caller's writes.

use std::sync::mpsc::sync_channel;
use thalweg_copy::fetch::{Wanted, fetch};
use thalweg_reader::Reader;
use thalweg_types::{BoundingBox, ElementType, Error, ErrorKind, Result};
use thalweg_views::hdf5::{Dataset, Elements, Kind};

/// Values of a part.
pub struct Part {
    /// Position of its dataset in the plan.
    pub dataset: usize,
    /// Its place there.
    pub bounds: BoundingBox,
    /// The values, in this machine's byte order.
    pub bytes: Vec<u8>,
}

/// The type of the values that a dataset gets.
pub fn element_of(kind: Kind) -> Option<ElementType> {
    use ElementType::*;
    Some(match kind {
        Kind::Integer(1, true, _) => I8,
        Kind::Integer(2, true, _) => I16,
        Kind::Integer(4, true, _) => I32,
        Kind::Integer(8, true, _) => I64,
        Kind::Integer(1, false, _) => U8,
        Kind::Integer(2, false, _) => U16,
        Kind::Integer(4, false, _) => U32,
        Kind::Integer(8, false, _) => U64,
        Kind::Real(4, _) => F32,
        Kind::Real(8, _) => F64,
        Kind::Complex(4, _) => Complex,
        Kind::Complex(8, _) => DoubleComplex,
        Kind::Letter => Char,
        Kind::Text => String,
        Kind::Integer(..) | Kind::Real(..) | Kind::Complex(..) | Kind::Word(_) => return None,
    })
}

/// Bytes of all values that are read.
pub fn total(datasets: &[Dataset]) -> u64 {
    let of = |dataset: &Dataset| match &dataset.content {
        Elements::Read { parts, .. } => {
            let bytes =
                |bounds: &BoundingBox| bounds.elements().unwrap_or(u64::MAX).saturating_mul(dataset.kind.size());
            parts.iter().map(|part| bytes(&part.bounds)).fold(0, u64::saturating_add)
        }
        Elements::Missing | Elements::Values(_) | Elements::Rows(_) | Elements::Block(_) | Elements::Boxes(_) => 0,
    };
    datasets.iter().map(of).fold(0, u64::saturating_add)
}

/// Hands on the values of all datasets that are read, in their order.
///
/// - `most`: bytes that are read together; a block that is read whole may have more.
///
/// # Errors
/// Those of reads and casts; the first of `hand`.
pub fn hand_on(
    reader: &Reader,
    datasets: &[Dataset],
    most: u64,
    hand: &mut dyn FnMut(Part) -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Result<Vec<Part>>>(1);
        let reading = scope.spawn(move || {
            let mut batch = Batch { reader, most, bytes: 0, wanted: Vec::new() };
            let gone = || Error::new(ErrorKind::PeerLost, "the conversion has ended");
            let mut pass = |parts: Vec<Part>| send.send(Ok(parts)).map_err(|_| gone());
            let all =
                datasets.iter().enumerate().try_for_each(|(number, dataset)| batch.add(number, dataset, &mut pass));
            // Where the other end is gone, it has failed, and says why.
            if let Err(e) = all.and_then(|()| batch.read(&mut pass)) {
                let _ = send.send(Err(e));
            }
        });
        let written = receive.iter().try_for_each(|parts| parts?.into_iter().try_for_each(&mut *hand));
        drop(receive);
        if let Err(panic) = reading.join() {
            std::panic::resume_unwind(panic);
        }
        written
    })
}

/// Parts that are read together.
struct Batch<'r> {
    reader: &'r Reader,
    most: u64,
    bytes: u64,
    wanted: Vec<(usize, &'r BoundingBox, Wanted<'r>)>,
}

impl<'r> Batch<'r> {
    fn add(
        &mut self,
        number: usize,
        dataset: &'r Dataset,
        pass: &mut dyn FnMut(Vec<Part>) -> Result<()>,
    ) -> Result<()> {
        let Elements::Read { variable, element, parts } = &dataset.content else { return Ok(()) };
        let becomes = element_of(dataset.kind)
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the plan is wrong: a type without values"))?;
        for part in parts {
            let too_many = || Error::new(ErrorKind::OutOfBounds, "a part has more bytes than 64 bits count");
            let bytes = part.bounds.elements().and_then(|all| all.checked_mul(element.size())).ok_or_else(too_many)?;
            if self.bytes > 0 && self.bytes.saturating_add(bytes) > self.most {
                self.read(pass)?;
            }
            self.bytes = self.bytes.saturating_add(bytes);
            let wanted = Wanted { name: variable, element: *element, becomes, step: part.step, from: &part.from };
            self.wanted.push((number, &part.bounds, wanted));
        }
        Ok(())
    }

    fn read(&mut self, pass: &mut dyn FnMut(Vec<Part>) -> Result<()>) -> Result<()> {
        let wanted = std::mem::take(&mut self.wanted);
        self.bytes = 0;
        let asked: Vec<Wanted<'_>> = wanted.iter().map(|(_, _, wanted)| *wanted).collect();
        let values = fetch(self.reader, &asked)?;
        let part = |((dataset, bounds, _), bytes): ((usize, &BoundingBox, Wanted<'_>), Vec<u8>)| Part {
            dataset,
            bounds: bounds.clone(),
            bytes,
        };
        pass(wanted.into_iter().zip(values).map(part).collect())
    }
}

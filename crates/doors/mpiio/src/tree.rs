//! Datatypes, as the C part hands them over: words of 64 bits in prefix form, so that nothing of an MPI's own numbers is known here.
//!
//! | word | constructor | words that follow |
//! |---|---|---|
//! | 0 | elementary | size |
//! | 1 | dup | type |
//! | 2 | contiguous | count, type |
//! | 3, 4 | vector, hvector | count, block, stride, type |
//! | 5, 6 | indexed, hindexed | n, then n times (count, displacement), type |
//! | 7, 8 | indexed block, hindexed block | n, block, n displacements, type |
//! | 9 | struct | n, then n times (count, displacement, type) |
//! | 10 | subarray | dimensions, order (0 C, 1 Fortran), sizes, subsizes, starts, type |
//! | 11 | darray | rank, dimensions, order, then per dimension (size, 0 none / 1 block / 2 cyclic, argument or 0, processes), type |
//! | 12 | resized | lower bound, extent, type |

use thalweg_types::{Error, ErrorKind, Result};
use thalweg_view::datatype::DEEPEST;
use thalweg_view::{Block, Datatype, Distribution, Order};

struct Words<'w> {
    rest: &'w [i64],
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("a datatype that cannot be decoded: {what}"))
}

impl Words<'_> {
    fn signed(&mut self) -> Result<i64> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| refused("it ends early"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64> {
        u64::try_from(self.signed()?).map_err(|_| refused("a negative count"))
    }

    /// A number of items of which each has `words` words at least.
    fn count(&mut self, words: usize) -> Result<usize> {
        let count = usize::try_from(self.signed()?).map_err(|_| refused("a negative count"))?;
        if count > self.rest.len() / words {
            return Err(refused("more items than words"));
        }
        Ok(count)
    }

    fn list<T>(&mut self, count: usize, one: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..count).map(|_| one(self)).collect()
    }

    fn block(&mut self) -> Result<Block> {
        Ok(Block { count: self.number()?, displacement: self.signed()? })
    }

    fn order(&mut self) -> Result<Order> {
        match self.signed()? {
            0 => Ok(Order::C),
            1 => Ok(Order::Fortran),
            _ => Err(refused("an unknown order of dimensions")),
        }
    }

    fn datatype(&mut self, depth: usize) -> Result<Datatype> {
        if depth > DEEPEST {
            return Err(refused("too many levels"));
        }
        let word = self.signed()?;
        let inner = |words: &mut Self| words.datatype(depth + 1).map(Box::new);
        Ok(match word {
            0 => Datatype::Elementary(self.number()?),
            1 => Datatype::Dup(inner(self)?),
            2 => Datatype::Contiguous { count: self.number()?, of: inner(self)? },
            3 | 4 => {
                let (count, block, stride) = (self.number()?, self.number()?, self.signed()?);
                let of = inner(self)?;
                match word {
                    3 => Datatype::Vector { count, block, stride, of },
                    _ => Datatype::Hvector { count, block, stride, of },
                }
            }
            5 | 6 => {
                let count = self.count(2)?;
                let blocks = self.list(count, Words::block)?;
                let of = inner(self)?;
                if word == 5 { Datatype::Indexed { blocks, of } } else { Datatype::Hindexed { blocks, of } }
            }
            7 | 8 => {
                let count = self.count(1)?;
                let block = self.number()?;
                let displacements = self.list(count, Words::signed)?;
                let of = inner(self)?;
                match word {
                    7 => Datatype::IndexedBlock { block, displacements, of },
                    _ => Datatype::HindexedBlock { block, displacements, of },
                }
            }
            9 => {
                let count = self.count(4)?;
                Datatype::Struct(self.list(count, |words| Ok((words.block()?, words.datatype(depth + 1)?)))?)
            }
            10 => {
                let dimensions = self.count(3)?;
                let order = self.order()?;
                let sizes = self.list(dimensions, Words::number)?;
                let subsizes = self.list(dimensions, Words::number)?;
                let starts = self.list(dimensions, Words::number)?;
                Datatype::Subarray { sizes, subsizes, starts, order, of: inner(self)? }
            }
            11 => self.distributed(depth)?,
            12 => Datatype::Resized { lower: self.signed()?, extent: self.signed()?, of: inner(self)? },
            _ => return Err(refused("an unknown constructor")),
        })
    }

    fn distributed(&mut self, depth: usize) -> Result<Datatype> {
        let rank = self.number()?;
        let dimensions = self.count(4)?;
        let order = self.order()?;
        let (mut sizes, mut distributions, mut processes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..dimensions {
            sizes.push(self.number()?);
            let kind = self.signed()?;
            let argument = Some(self.number()?).filter(|n| *n > 0);
            distributions.push(match kind {
                0 => Distribution::None,
                1 => Distribution::Block(argument),
                2 => Distribution::Cyclic(argument),
                _ => return Err(refused("an unknown distribution")),
            });
            processes.push(self.number()?);
        }
        let of = Box::new(self.datatype(depth + 1)?);
        Ok(Datatype::Darray { rank, sizes, distributions, processes, order, of })
    }
}

/// The datatype that these words describe.
///
/// # Errors
/// `InvalidArgument` for words that are no datatype, or that are left over.
pub fn datatype(words: &[i64]) -> Result<Datatype> {
    let mut words = Words { rest: words };
    let made = words.datatype(0)?;
    if !words.rest.is_empty() {
        return Err(refused("words behind it"));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_datatype_that_they_name() {
        let double = || Box::new(Datatype::Elementary(8));
        assert_eq!(datatype(&[2, 5, 0, 8]).unwrap(), Datatype::Contiguous { count: 5, of: double() });
        assert_eq!(
            datatype(&[3, 4, 1, -2, 1, 0, 8]).unwrap(),
            Datatype::Vector { count: 4, block: 1, stride: -2, of: Box::new(Datatype::Dup(double())) }
        );
        assert_eq!(
            datatype(&[9, 2, 1, 0, 0, 4, 2, 16, 0, 8]).unwrap(),
            Datatype::Struct(vec![
                (Block { count: 1, displacement: 0 }, Datatype::Elementary(4)),
                (Block { count: 2, displacement: 16 }, Datatype::Elementary(8)),
            ])
        );
        assert_eq!(
            datatype(&[10, 2, 1, 6, 7, 2, 3, 1, 0, 12, -4, 32, 0, 8]).unwrap(),
            Datatype::Subarray {
                sizes: vec![6, 7],
                subsizes: vec![2, 3],
                starts: vec![1, 0],
                order: Order::Fortran,
                of: Box::new(Datatype::Resized { lower: -4, extent: 32, of: double() }),
            }
        );
        assert_eq!(
            datatype(&[11, 3, 2, 0, 9, 2, 2, 2, 4, 1, 0, 2, 0, 8]).unwrap(),
            Datatype::Darray {
                rank: 3,
                sizes: vec![9, 4],
                distributions: vec![Distribution::Cyclic(Some(2)), Distribution::Block(None)],
                processes: vec![2, 2],
                order: Order::C,
                of: double(),
            }
        );
        assert_eq!(
            datatype(&[8, 2, 3, 0, 40, 0, 8]).unwrap(),
            Datatype::HindexedBlock { block: 3, displacements: vec![0, 40], of: double() }
        );
    }

    #[test]
    fn words_that_are_no_datatype_are_refused() {
        let deep: Vec<i64> = std::iter::repeat_n(1, 1_000_000).chain([0, 8]).collect();
        for words in [
            &[][..],
            &[0],
            &[0, -1],
            &[0, 8, 0],
            &[13, 0, 8],
            &[5, i64::MAX, 1, 1, 0, 8],
            &[9, 3, 1, 0, 0, 8],
            &[10, 1, 2, 4, 4, 0, 0, 8],
            &[11, 0, 1, 0, 4, 3, 0, 1, 0, 8],
            &deep,
        ] {
            assert_eq!(
                datatype(words).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{:?}",
                &words[..words.len().min(9)]
            );
        }
    }
}

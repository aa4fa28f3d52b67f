//! `identity`: the bytes as they are. No parameters, no metadata.

use super::{Codec, Done, Encode, Form};
use crate::{Block, Stored};
use thalweg_params::Parameters;
use thalweg_types::{ByteOrder, Result};

/// The transform.
#[derive(Debug)]
pub struct Identity;

impl Codec for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn about(&self) -> &'static str {
        "the bytes as they are"
    }

    fn configure(&self, _given: &Parameters) -> Result<Box<dyn Encode>> {
        Ok(Box::new(Identity))
    }

    fn expansion(&self) -> u64 {
        1
    }

    fn form(&self, _: &[u8], _: ByteOrder, _: u64) -> Result<Form> {
        Ok(Form::Plain)
    }

    fn decode(&self, stored: &Stored<'_>, out: &mut [u8]) -> Result<()> {
        stored.copy_to(out)
    }
}

impl Encode for Identity {
    fn room(&self, _block: &Block<'_>) -> Result<u64> {
        Ok(0)
    }

    fn encode(&self, _block: &Block<'_>, _bytes: &[u8], _out: &mut [u8]) -> Result<Option<Done>> {
        Ok(None)
    }

    fn raw(&self, _block: &Block<'_>) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

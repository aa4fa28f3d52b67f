//! The codec `blosc` of Zarr, decoded as the transform of this name. Nothing is written with it.
//!
//! The library's own codec would bring snappy along, which is a C++ library.

use std::borrow::Cow;
use std::sync::Arc;
use thalweg_transform::codec::blosc::decode_buffer;
use zarrs::array::codec::api::{CodecPluginV2, CodecPluginV3, PartialDecoderCapability, PartialEncoderCapability};
use zarrs::array::{
    ArrayBytesRaw, BytesRepresentation, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecTraits, CodecTraitsV2, CodecTraitsV3, RecommendedConcurrency,
};
use zarrs::metadata::Configuration;
use zarrs::metadata::v2::MetadataV2;
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{PluginCreateError, ZarrVersion};

/// The codec.
#[derive(Debug, Clone, Copy)]
struct Blosc;

zarrs::plugin::impl_extension_aliases!(Blosc, v3: "blosc", v2: "blosc");

inventory::submit! {
    CodecPluginV3::new::<Blosc>()
}

inventory::submit! {
    CodecPluginV2::new::<Blosc>()
}

impl CodecTraitsV3 for Blosc {
    fn create(_: &MetadataV3) -> Result<Codec, PluginCreateError> {
        // A buffer says itself how it is decoded.
        Ok(Codec::BytesToBytes(Arc::new(Blosc)))
    }
}

impl CodecTraitsV2 for Blosc {
    fn create(_: &MetadataV2) -> Result<Codec, PluginCreateError> {
        Ok(Codec::BytesToBytes(Arc::new(Blosc)))
    }
}

impl CodecTraits for Blosc {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn configuration(&self, _: ZarrVersion, _: &CodecMetadataOptions) -> Option<Configuration> {
        Some(Configuration::default())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl BytesToBytesCodecTraits for Blosc {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(&self, _: &BytesRepresentation) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }

    fn encode<'a>(&self, _: ArrayBytesRaw<'a>, _: &CodecOptions) -> Result<ArrayBytesRaw<'a>, CodecError> {
        Err(CodecError::Other("nothing is written with blosc".to_string()))
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        decoded: &BytesRepresentation,
        _: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        // Behind a codec of unknown length, as another compression, the buffer itself is believed.
        let said = || encoded.get(4..8).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes).map(u64::from);
        let length = match decoded {
            BytesRepresentation::FixedSize(length) => Some(*length),
            BytesRepresentation::BoundedSize(_) | BytesRepresentation::UnboundedSize => said(),
        };
        let length = length.ok_or_else(|| CodecError::Other("a blosc buffer is torn".to_string()))?;
        let bytes = decode_buffer(&encoded, length).map_err(|e| CodecError::Other(e.to_string()))?;
        Ok(Cow::Owned(bytes))
    }

    fn encoded_representation(&self, _: &BytesRepresentation) -> BytesRepresentation {
        BytesRepresentation::UnboundedSize
    }
}

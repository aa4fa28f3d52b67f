//! Methods and parameters tried on the storage at hand.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`search`] | what is run next, when to stop, what the times say: pure |
//! | [`variants`] | the methods and parameters worth trying |
//! | [`load`] | the group with its real sizes |
//! | [`measure`] | one run |

pub mod load;
pub mod measure;
pub mod search;
pub mod variants;

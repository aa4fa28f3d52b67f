//! Methods and parameters tried on the storage at hand.
//!
//! | room | what it owns |
//! |------|--------------|
//! | [`search`] | the next candidate, the end of the search, the evaluation of times: pure |
//! | [`variants`] | the methods and parameters worth trying |
//! | [`load`] | the group with its real sizes |
//! | [`measure`] | one run |

pub mod load;
pub mod measure;
pub mod search;
pub mod variants;

//! The container layout: its promises over many stores, and what happens when something is lost.

mod conformance;

//! Switches: `yes` and `no`, spelled as XML files, shells and configuration files spell them.

/// Reads a switch: `yes`, `y`, `true`, `on`, `1`, or nothing (a key alone means yes); `no`, `n`, `false`, `off`, `0`. Letter case
/// and surrounding blanks are ignored. `None` for any other text.
pub fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "on" | "1" | "" => Some(true),
        "no" | "n" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_yes_and_no_is_one_switch() {
        for yes in ["yes", "Y", "true", "ON", "1", "", " yes "] {
            assert_eq!(switch(yes), Some(true), "{yes:?}");
        }
        for no in ["no", "N", "False", "off", "0"] {
            assert_eq!(switch(no), Some(false), "{no:?}");
        }
        for neither in ["maybe", "2", "yes!", "none"] {
            assert_eq!(switch(neither), None, "{neither:?}");
        }
    }
}

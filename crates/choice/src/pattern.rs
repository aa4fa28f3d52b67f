//! Names by pattern: `*` any characters, slashes too, `?` one, `[a-z]` one of these. A slash in front makes no difference.

use thalweg_types::{Error, ErrorKind, Result};

/// A pattern of names.
#[derive(Debug, Clone)]
pub struct Pattern {
    glob: glob::Pattern,
    given: String,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// `InvalidArgument` with the place of what is wrong.
    pub fn parse(text: &str) -> Result<Pattern> {
        let glob = glob::Pattern::new(text.strip_prefix('/').unwrap_or(text)).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, format!("pattern '{text}': {} at character {}", e.msg, e.pos + 1))
        })?;
        Ok(Pattern { glob, given: text.to_string() })
    }

    /// Whether it is the pattern of this full name. A name that is itself full of brackets is its own pattern.
    pub fn fits(&self, name: &str) -> bool {
        self.given == name || self.glob.matches(name.strip_prefix('/').unwrap_or(name))
    }

    /// As it was given.
    pub fn given(&self) -> &str {
        &self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_in_front_makes_no_difference_and_brackets_may_be_part_of_a_name() {
        let fits = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().fits(name);
        assert!(fits("/grid/x", "grid/x") && fits("grid/x", "/grid/x") && fits("grid*", "/grid/x"));
        assert!(fits("v[0-9]", "v7") && fits("v[a]b", "v[a]b") && !fits("v[0-9]", "vx"));
        let refused = Pattern::parse("v[").unwrap_err();
        assert!(refused.to_string().contains("'v['"), "{refused}");
    }
}

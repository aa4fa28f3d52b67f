//! A choice as users write it on a command line.

use crate::choice::{Blocks, Choice, Steps, check_transform};
use crate::pattern::Pattern;
use crate::region::Region;
use serde::{Deserialize, Serialize};
use thalweg_types::{ElementType, Error, ErrorKind, Result};

/// The words of a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Patterns of variables; none: all.
    pub only: Vec<String>,
    /// Patterns of variables that are left out.
    pub without: Vec<String>,
    /// `first:end`, `first:end:stride` or one number.
    pub steps: Option<String>,
    /// `PATTERN[RANGES]`.
    pub regions: Vec<String>,
    /// `PATTERN=TYPE`.
    pub types: Vec<String>,
    /// `PATTERN=TRANSFORM`.
    pub transforms: Vec<String>,
    /// `written`, `merged` or `4x2`.
    pub blocks: Option<String>,
}

impl Written {
    /// What the words mean.
    ///
    /// # Errors
    /// `InvalidArgument` with the word that means nothing; `Config` for an unknown transform.
    pub fn parse(&self) -> Result<Choice> {
        let patterns = |all: &[String]| all.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>>>();
        let refused = |e: Error| Error::new(e.kind(), format!("--{}", e.what()));
        let blocks = self.blocks.as_deref().map(Blocks::parse).transpose().map_err(refused)?;
        let mut choice = Choice {
            variables: patterns(&self.only)?,
            without: patterns(&self.without)?,
            blocks: blocks.unwrap_or_default(),
            ..Choice::default()
        };
        if let Some(steps) = &self.steps {
            choice.steps = Steps::parse(steps)?;
        }
        for text in &self.regions {
            let (name, region) = Region::parse_of(text)?;
            choice.regions.push((Pattern::parse(&name)?, region));
        }
        for text in &self.types {
            let (pattern, name) = assigned(text, "--type u=real")?;
            let unknown = || Error::new(ErrorKind::InvalidArgument, format!("'{text}': no type '{name}'"));
            choice.elements.push((pattern, ElementType::parse(name).ok_or_else(unknown)?));
        }
        for text in &self.transforms {
            let (pattern, transform) = assigned(text, "--transform u=zlib:5")?;
            if transform != "none" {
                check_transform(transform)?;
            }
            choice.transforms.push((pattern, transform.to_string()));
        }
        Ok(choice)
    }
}

/// Reads `PATTERN=VALUE`.
///
/// - `like`: an example for the error.
///
/// # Errors
/// `InvalidArgument` for anything else.
pub fn assigned<'a>(text: &'a str, like: &str) -> Result<(Pattern, &'a str)> {
    let (pattern, value) = text
        .split_once('=')
        .filter(|(pattern, value)| !pattern.is_empty() && !value.is_empty())
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("'{text}' is no assignment; write {like}")))?;
    Ok((Pattern::parse(pattern)?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Written {
        Written {
            only: vec!["u*".into()],
            steps: Some("2:8:3".into()),
            regions: vec!["u[0:4, ::2]".into()],
            types: vec!["u=real".into()],
            transforms: vec!["*=zlib:5".into(), "u2=none".into()],
            blocks: Some("4x2".into()),
            ..Written::default()
        }
    }

    #[test]
    fn words_become_a_choice() {
        let choice = written().parse().unwrap();
        assert!(choice.has("u1") && !choice.has("v"));
        assert!(choice.steps.contain(5) && !choice.steps.contain(6));
        assert_eq!(choice.region("u").unwrap().of(&[8, 9]).unwrap().count, [4, 5]);
        assert_eq!(choice.element("u"), Some(ElementType::F32));
        assert_eq!((choice.transform("u1"), choice.transform("u2")), (Some("zlib:5"), Some("none")));
        assert_eq!(choice.blocks, Blocks::Grid(vec![4, 2]));
        assert!(Written::default().parse().unwrap().has("anything"));
    }

    #[test]
    fn a_word_that_means_nothing_is_named() {
        type Change = fn(&mut Written);
        let wrong: [(Change, &str); 6] = [
            (|w| w.steps = Some("x".into()), "x"),
            (|w| w.regions = vec!["u[a]".into()], "a"),
            (|w| w.types = vec!["u=nothing".into()], "nothing"),
            (|w| w.types = vec!["u".into()], "u"),
            (|w| w.transforms = vec!["u=nothing".into()], "nothing"),
            (|w| w.blocks = Some("0x2".into()), "0x2"),
        ];
        for (change, named) in wrong {
            let mut words = written();
            change(&mut words);
            let error = words.parse().unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }
}

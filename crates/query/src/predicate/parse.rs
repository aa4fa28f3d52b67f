//! Text to predicate, by recursive descent; a mistake is shown under the text.

use super::{Expression, FUNCTIONS, Function, Predicate, Term};
use crate::Operator;
use crate::number::Number;
use std::fmt;

/// Deepest nesting of parentheses and `not`.
const DEEPEST: usize = 200;

/// A mistake, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    text: String,
    /// Number of characters before it.
    at: usize,
    what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "{}\n  {line}\n  {}^", self.what, " ".repeat(self.at))
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Open,
    Close,
    Operator(Operator),
    And,
    Or,
    Not,
    End,
}

/// Reads a predicate.
///
/// # Errors
/// The expected form, with the position shown under the text.
pub fn parse(text: &str) -> Result<Predicate, Mistake> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, next: 0, depth: 0, variables: Vec::new(), attributes: Vec::new() };
    let root = parser.any()?;
    match parser.peek() {
        Token::End => Ok(Predicate { root, variables: parser.variables, attributes: parser.attributes }),
        Token::Close => Err(parser.mistake("this ')' was not opened")),
        _ => Err(parser.mistake("expected 'and', 'or' or the end")),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Mistake> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let start = i;
        let follows = |c: char| chars.get(start + 1) == Some(&c);
        let (token, length) = match chars[i] {
            c if c.is_whitespace() => {
                i += 1;
                continue;
            }
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '<' if follows('=') => (Token::Operator(Operator::LessOrEqual), 2),
            '<' => (Token::Operator(Operator::Less), 1),
            '>' if follows('=') => (Token::Operator(Operator::GreaterOrEqual), 2),
            '>' => (Token::Operator(Operator::Greater), 1),
            '=' => (Token::Operator(Operator::Equal), if follows('=') { 2 } else { 1 }),
            '!' if follows('=') => (Token::Operator(Operator::NotEqual), 2),
            '!' => (Token::Not, 1),
            '&' if follows('&') => (Token::And, 2),
            '|' if follows('|') => (Token::Or, 2),
            quote @ ('"' | '\'') => {
                let inside: String = chars[i + 1..].iter().take_while(|c| **c != quote).collect();
                let length = inside.chars().count() + 2;
                if start + length > chars.len() {
                    return Err(Mistake { text: text.into(), at: start, what: "this quote is not closed".into() });
                }
                (Token::Text(inside), length)
            }
            _ => {
                let word: String =
                    chars[i..].iter().take_while(|c| !c.is_whitespace() && !"()<>=!\"'&|".contains(**c)).collect();
                let length = word.chars().count();
                if length == 0 {
                    let what = format!("unexpected '{}'; write 'and' or 'or'", chars[i]);
                    return Err(Mistake { text: text.into(), at: start, what });
                }
                let token = match word.as_str() {
                    "and" => Token::And,
                    "or" => Token::Or,
                    "not" => Token::Not,
                    _ => Token::Word(word),
                };
                (token, length)
            }
        };
        tokens.push((start, token));
        i = start + length;
    }
    tokens.push((chars.len(), Token::End));
    Ok(tokens)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
    variables: Vec<String>,
    attributes: Vec<String>,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].1.clone();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn takes(&mut self, token: &Token) -> bool {
        let there = self.peek() == token;
        if there {
            self.next += 1;
        }
        there
    }

    fn mistake(&self, what: impl Into<String>) -> Mistake {
        self.mistake_at(self.next, what)
    }

    fn mistake_at(&self, token: usize, what: impl Into<String>) -> Mistake {
        Mistake { text: self.text.to_string(), at: self.tokens[token].0, what: what.into() }
    }

    fn any(&mut self) -> Result<Expression, Mistake> {
        let mut parts = vec![self.all()?];
        while self.takes(&Token::Or) {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self) -> Result<Expression, Mistake> {
        let mut parts = vec![self.not()?];
        while self.takes(&Token::And) {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn not(&mut self) -> Result<Expression, Mistake> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.mistake(format!("nested deeper than {DEEPEST}")));
        }
        let expression = if self.takes(&Token::Not) {
            Expression::Not(Box::new(self.not()?))
        } else if self.takes(&Token::Open) {
            let inside = self.any()?;
            if !self.takes(&Token::Close) {
                return Err(self.mistake("expected ')'"));
            }
            inside
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, Mistake> {
        let mut left = self.term()?;
        let mut parts = Vec::new();
        while let Token::Operator(op) = *self.peek() {
            self.next += 1;
            let right = self.term()?;
            parts.push(Expression::Compare(left, op, right.clone()));
            left = right;
        }
        match parts.len() {
            0 => Err(self.mistake("expected a comparison: <, <=, >, >=, == or !=")),
            1 => Ok(parts.remove(0)),
            _ => Ok(Expression::All(parts)),
        }
    }

    fn term(&mut self) -> Result<Term, Mistake> {
        let at = self.next;
        match self.take() {
            Token::Text(text) => Ok(Term::Text(text.into_bytes())),
            Token::Word(word) if *self.peek() == Token::Open => {
                let function = FUNCTIONS.iter().find(|(name, _)| *name == word).map(|(_, f)| *f);
                if function.is_none() && word != "attribute" {
                    let known = FUNCTIONS.iter().map(|(name, _)| *name).chain(["attribute"]);
                    let near = thalweg_params::nearest(&word, known.clone());
                    let all = known.collect::<Vec<_>>().join(", ");
                    let hint = near.map(|n| format!(" (nearest: {n})")).unwrap_or_default();
                    return Err(self.mistake_at(at, format!("no function '{word}'{hint}; functions: {all}")));
                }
                self.next += 1;
                let name = match self.take() {
                    Token::Word(name) | Token::Text(name) => name,
                    _ => {
                        self.next = at + 2;
                        return Err(self.mistake(format!("expected a name in {word}( )")));
                    }
                };
                if !self.takes(&Token::Close) {
                    return Err(self.mistake(format!("expected ')' after the name; {word}( ) takes one name")));
                }
                Ok(match function {
                    Some(function) => self.variable(function, name),
                    None => Term::Attribute(place(&mut self.attributes, name)),
                })
            }
            Token::Word(word) if word == "step" => Ok(Term::Step),
            Token::Word(word) => match Number::parse(&word) {
                Some(number) => Ok(Term::Number(number)),
                None if word.starts_with(|c: char| c.is_ascii_digit()) && word.parse::<f64>().is_err() => Err(self
                    .mistake_at(
                        at,
                        format!("'{word}' is no number; a name that starts so is written any(\"{word}\")"),
                    )),
                None => Ok(self.variable(Function::Any, word)),
            },
            _ => Err(self.mistake_at(at, "expected a number, a name or a \"text\"")),
        }
    }

    fn variable(&mut self, function: Function, name: String) -> Term {
        Term::Of(function, place(&mut self.variables, name))
    }
}

fn place(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|n| *n == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_kinds_are_read() {
        let p = parse("max(/data/v-1.x)>-3 and any(\"my var\")<2 and u<=1 and attribute(T/units)=='K' and max(u)>0")
            .unwrap();
        assert_eq!(p.variables, ["/data/v-1.x", "my var", "u"]);
        assert_eq!(p.attributes, ["T/units"]);
        assert_eq!(p.comparisons().len(), 5);
    }

    #[test]
    fn mistakes_are_shown_under_the_text() {
        for (text, at, what) in [
            ("max(v) >> 3", 8, "expected a number"),
            ("maks(v) > 3", 0, "no function 'maks' (nearest: max)"),
            ("max(v) > 3)", 10, "was not opened"),
            ("(max(v) > 3", 11, "expected ')'"),
            ("max(v", 5, "expected ')' after the name"),
            ("max() > 1", 4, "expected a name in max( )"),
            ("v", 1, "expected a comparison"),
            ("v > 3 u < 2", 6, "expected 'and', 'or'"),
            ("v > 'x", 4, "not closed"),
            ("v & u", 2, "unexpected '&'"),
            ("v > 3x", 4, "is no number"),
            ("", 0, "expected a number"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert_eq!(mistake.at, at, "{mistake}");
            assert!(mistake.what.contains(what), "{mistake}");
        }
        assert_eq!(
            parse("max(v) >> 3").unwrap_err().to_string(),
            "expected a number, a name or a \"text\"\n  max(v) >> 3\n          ^"
        );
    }

    #[test]
    fn endless_nesting_is_refused() {
        assert!(parse(&"(".repeat(100_000)).unwrap_err().what.contains("nested deeper"));
        assert!(parse(&"not ".repeat(100_000)).unwrap_err().what.contains("nested deeper"));
    }
}

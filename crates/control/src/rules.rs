//! Rules: a run changes what it writes by itself, when the values of an output say so.
//!
//! | part of `when max(T) > 1e6 for 2 steps: every=1, box=10:20,0:64` | values |
//! |---|---|
//! | a value | `max(NAME)`, `min(NAME)`: of all finite values of the variable that all ranks wrote, scalars too |
//! | a comparison | `>`, `>=`, `<`, `<=`, and a number |
//! | or instead of both | `not finite(NAME)`: a value is infinite or no number |
//! | | `drift(NAME) > LIMIT`: a scalar differs by more than this part of its first value of the run; from 0, by more than the limit |
//! | | `no output for TIME`: so long from one output that the program offers to the next one |
//! | `for N steps` | so many written outputs in a row; 1 if it is left out |
//! | the change | `every=N`, `only=A,B`, `box=A:B,C:D`, `method=NAME`, `stop`, `stop after GROUP`: as in [`Change`]; `warn`: a warning |
//!
//! Several rules are separated by `|` or line breaks; what follows `#` in a line is a remark. A rule acts once when its condition begins
//! to hold, and again after it has not held.
//!
//! Each rank gives two numbers for each rule, which are 0 or 1; the largest of all ranks decide. So ranks need to tell each other
//! only where a number of theirs is another than before.

use crate::settings::{Arrays, Change, Method, Stop, full_name};
use std::fmt;
use std::time::Duration;
use thalweg_params::time;
use thalweg_types::{Error, ErrorKind, Result};

/// The most rules of a file.
pub const MOST: usize = 64;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Condition {
    /// The largest value is above the limit, or as large.
    MaxAbove {
        limit: f64,
        or_equal: bool,
    },
    /// The largest value is below the limit, or as large.
    MaxBelow {
        limit: f64,
        or_equal: bool,
    },
    MinAbove {
        limit: f64,
        or_equal: bool,
    },
    MinBelow {
        limit: f64,
        or_equal: bool,
    },
    NotFinite,
    /// A scalar is further from its first value.
    Drift {
        limit: f64,
        or_equal: bool,
    },
    /// More time has passed since the output before.
    Idle {
        limit: Duration,
    },
}

/// The values of a block, or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Smallest and largest finite value; `None` without any.
    pub range: Option<(f64, f64)>,
    /// All values are finite.
    pub finite: bool,
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// As it was written.
    text: String,
    /// The variable, by its full name once it is checked; empty for a condition of none.
    variable: String,
    condition: Condition,
    /// Written outputs in a row.
    outputs: u64,
    change: Change,
    warns: bool,
}

/// A rule acts.
#[derive(Debug, Clone, PartialEq)]
pub struct Acts {
    /// What changes; nothing, for a rule that only warns.
    pub change: Change,
    /// Whether the user is to be warned.
    pub warns: bool,
    /// The rule's text.
    pub text: String,
}

/// The rules of a file, and what they have seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
    /// This rank's numbers, of the output that is being written: two for each rule.
    own: Vec<u64>,
    /// Those that it has told the others last.
    told: Vec<u64>,
    /// Those of all ranks.
    all: Vec<u64>,
    /// Outputs in a row for which the condition holds.
    held: Vec<u64>,
    /// The first value that this rank has seen, for a drift.
    first: Vec<Option<f64>>,
    /// An output was written since the last decision.
    written: bool,
    /// Names are full ones.
    checked: bool,
}

impl Condition {
    /// The two numbers of a rank's values: whether there is any, and whether one decides.
    ///
    /// - `first`: the first value of the run.
    fn numbers(self, seen: &Seen, first: Option<f64>) -> [u64; 2] {
        let above = |value: f64, limit: f64, or_equal: bool| value > limit || or_equal && value == limit;
        let below = |value: f64, limit: f64, or_equal: bool| value < limit || or_equal && value == limit;
        let decides = match (self, seen.range) {
            (Condition::NotFinite, _) => !seen.finite,
            (_, None) | (Condition::Idle { .. }, _) => false,
            (Condition::Drift { limit, or_equal }, Some((value, _))) => first.is_some_and(|first| {
                let scale = if first == 0.0 { 1.0 } else { first.abs() };
                above((value - first).abs() / scale, limit, or_equal)
            }),
            (Condition::MaxAbove { limit, or_equal }, Some((_, max))) => above(max, limit, or_equal),
            // One that is not below decides that the largest is not.
            (Condition::MaxBelow { limit, or_equal }, Some((_, max))) => !below(max, limit, or_equal),
            (Condition::MinBelow { limit, or_equal }, Some((min, _))) => below(min, limit, or_equal),
            (Condition::MinAbove { limit, or_equal }, Some((min, _))) => !above(min, limit, or_equal),
        };
        [u64::from(seen.range.is_some() || self == Condition::NotFinite), u64::from(decides)]
    }

    /// Whether it holds, from the largest numbers of all ranks.
    fn holds(self, any: u64, decides: u64) -> bool {
        match self {
            Condition::MaxBelow { .. } | Condition::MinAbove { .. } => any > 0 && decides == 0,
            _ => any > 0 && decides > 0,
        }
    }
}

impl Rule {
    /// Whether it is about this variable: by a full name, or, before names are checked, by the end of one.
    fn is_of(&self, full: &str) -> bool {
        let variable = self.variable.as_str();
        !variable.is_empty()
            && (full == variable || full.strip_suffix(variable).is_some_and(|before| before.ends_with('/')))
    }
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// `Config` names the rule and what is expected.
    pub fn parse(text: &str) -> Result<Rules> {
        let rules: Vec<Rule> = rules_of(text).map(rule).collect::<Result<_>>()?;
        if rules.len() > MOST {
            return Err(Error::new(ErrorKind::Config, format!("{} rules; at most {MOST} are possible", rules.len())));
        }
        let (numbers, held, first) = (vec![0; 2 * rules.len()], vec![0; rules.len()], vec![None; rules.len()]);
        Ok(Rules { rules, own: numbers.clone(), told: numbers.clone(), all: numbers, held, first, ..Rules::default() })
    }

    /// Takes the full names of a group for those of the rules, once the group has any variables: a program may declare them as it
    /// writes its first output.
    ///
    /// - `variables`: full names of the group's numeric variables; `arrays`: as for [`Change::checked`].
    ///
    /// # Errors
    /// As [`Change::checked`], with the rule.
    pub fn check(&mut self, variables: &[String], arrays: Arrays<'_>) -> Result<()> {
        if self.checked || variables.is_empty() {
            return Ok(());
        }
        for rule in &mut self.rules {
            let named = rule.named(variables, arrays).and_then(|()| rule.change.clone().checked(arrays));
            rule.change = named.map_err(|e| wrong(&rule.text, e.what()))?;
        }
        self.checked = true;
        Ok(())
    }

    /// The methods that rules change to, each with the rule's text.
    pub fn methods(&self) -> impl Iterator<Item = (&str, &Method)> {
        self.rules.iter().filter_map(|rule| Some((rule.text.as_str(), rule.change.method.as_ref()?.as_ref()?)))
    }

    /// The groups of which an output is awaited before the program is asked to stop.
    pub fn awaited(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| match &rule.change.stop {
            Some(Stop::After(group)) => Some(group.as_str()),
            _ => None,
        })
    }

    /// The times after which a run without an output is told of, each with the rule's text.
    pub fn idle(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.rules.iter().filter_map(|rule| match rule.condition {
            Condition::Idle { limit } => Some((rule.text.as_str(), limit)),
            _ => None,
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether names of rules are not yet those of the group.
    pub fn needs_check(&self) -> bool {
        !self.checked && !self.is_empty()
    }

    /// Whether a rule needs the values of a variable.
    pub fn need(&self, full: &str) -> bool {
        self.rules.iter().any(|rule| rule.is_of(full))
    }

    /// Notes what this rank writes of a variable.
    pub fn note(&mut self, full: &str, seen: &Seen) {
        let own = self.own.chunks_exact_mut(2).zip(&mut self.first);
        for (rule, (own, first)) in self.rules.iter().zip(own).filter(|(rule, _)| rule.is_of(full)) {
            *first = first.or(seen.range.map(|(value, _)| value));
            let numbers = rule.condition.numbers(seen, *first);
            own.iter_mut().zip(numbers).for_each(|(own, number)| *own = number.max(*own));
        }
    }

    /// Notes, at the open of an output that is written, how long ago the program offered the one before.
    pub fn note_time(&mut self, since: Duration) {
        for (rule, own) in self.rules.iter().zip(self.own.chunks_exact_mut(2)) {
            if let Condition::Idle { limit } = rule.condition {
                own.copy_from_slice(&[1, u64::from(since > limit)]);
            }
        }
    }

    /// Whether this rank's numbers of the last output are others than those that it has told.
    pub fn has_news(&self) -> bool {
        self.written && self.own != self.told
    }

    /// This rank's numbers: to be told if any rank has news.
    pub fn numbers(&self) -> &[u64] {
        &self.own
    }

    /// On all ranks, at the open of an output: what the values of the output before it change.
    ///
    /// - `all`: the largest numbers of all ranks, if any had news.
    pub fn decide(&mut self, all: Option<&[u64]>) -> Vec<Acts> {
        if let Some(all) = all.filter(|all| all.len() == self.all.len()) {
            self.all.copy_from_slice(all);
            self.told.copy_from_slice(&self.own);
        }
        let mut acts = Vec::new();
        if std::mem::replace(&mut self.written, true) {
            for ((rule, numbers), held) in self.rules.iter().zip(self.all.chunks_exact(2)).zip(&mut self.held) {
                *held = if rule.condition.holds(numbers[0], numbers[1]) { held.saturating_add(1) } else { 0 };
                if *held == rule.outputs {
                    acts.push(Acts { change: rule.change.clone(), warns: rule.warns, text: rule.text.clone() });
                }
            }
        }
        self.own.fill(0);
        acts
    }
}

impl fmt::Display for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.change.is_empty() {
            true => write!(f, "warning (rule: {})", self.text),
            false => write!(f, "{} (rule: {})", self.change, self.text),
        }
    }
}

impl Rule {
    /// Takes the full name of its variable.
    fn named(&mut self, variables: &[String], arrays: Arrays<'_>) -> Result<()> {
        if self.variable.is_empty() {
            return Ok(());
        }
        self.variable = full_name("variable", &self.variable, variables)?;
        match self.condition {
            Condition::Drift { .. } if arrays.names.contains(&self.variable) => {
                let what = format!("drift needs a scalar, and {} is an array", self.variable);
                Err(Error::new(ErrorKind::InvalidArgument, what))
            }
            _ => Ok(()),
        }
    }
}

/// The texts of rules, without remarks.
fn rules_of(text: &str) -> impl Iterator<Item = &str> {
    // A name may contain the sign.
    let remark = |line: &str| {
        line.match_indices('#').map(|(at, _)| at).find(|at| at == &0 || line[..*at].ends_with([' ', '\t']))
    };
    let lines = text.lines().map(move |line| remark(line).map_or(line, |at| &line[..at]));
    lines.flat_map(|line| line.split('|')).map(str::trim).filter(|rule| !rule.is_empty())
}

fn wrong(rule: &str, why: &str) -> Error {
    Error::new(ErrorKind::Config, format!("rule \"{rule}\": {why}"))
}

fn rule(text: &str) -> Result<Rule> {
    let form = "expected as: when max(T) > 1e6 for 2 steps: every=1, box=10:20,0:64";
    let rest = text.strip_prefix("when ").ok_or_else(|| wrong(text, form))?;
    let (condition, change) = rest.split_once(':').ok_or_else(|| wrong(text, form))?;
    let (variable, condition, outputs) = match condition.trim().strip_prefix("no output for ") {
        Some(limit) => {
            let limit = time(limit, None).ok_or_else(|| wrong(text, "expected a time such as 10min behind \"for\""))?;
            (String::new(), Condition::Idle { limit }, 1)
        }
        None => {
            let (condition, outputs) = in_a_row(text, condition)?;
            let (variable, condition) = comparison(condition.trim()).ok_or_else(|| {
                wrong(
                    text,
                    "expected max(NAME) or min(NAME) with >, >=, < or <= and a number, drift(NAME) with > and a number, not finite(NAME), or no output for TIME",
                )
            })?;
            (variable, condition, outputs)
        }
    };
    let (change, warns) = changes(change).map_err(|e| wrong(text, e.what()))?;
    if change.is_empty() && !warns {
        return Err(wrong(text, &format!("it changes nothing: expected {CHANGES} behind \":\"")));
    }
    Ok(Rule { text: text.to_string(), variable, condition, outputs, change, warns })
}

/// What may stand behind the colon.
const CHANGES: &str = "every=N, only=A,B, box=A:B,C:D, method=NAME, stop, stop after GROUP or warn";

/// Splits `CONDITION for 2 steps`.
fn in_a_row<'t>(rule: &str, condition: &'t str) -> Result<(&'t str, u64)> {
    let Some((condition, count)) = condition.rsplit_once(" for ") else { return Ok((condition, 1)) };
    let count = count.trim();
    let number = count.strip_suffix("steps").or(count.strip_suffix("step")).unwrap_or(count).trim();
    match number.parse().ok().filter(|n| *n > 0) {
        Some(outputs) => Ok((condition, outputs)),
        None => Err(wrong(rule, "expected a number of steps, at least 1, behind \"for\"")),
    }
}

fn comparison(text: &str) -> Option<(String, Condition)> {
    let (function, rest) = text.split_once('(')?;
    let (variable, rest) = rest.rsplit_once(')')?;
    let (variable, rest) = (variable.trim().to_string(), rest.trim());
    let function = function.trim();
    if function.split_whitespace().eq(["not", "finite"]) {
        return (rest.is_empty() && !variable.is_empty()).then_some((variable, Condition::NotFinite));
    }
    let (above, rest) = match rest.strip_prefix('>') {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix('<')?),
    };
    let (or_equal, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let limit: f64 = rest.trim().parse().ok().filter(|limit: &f64| !limit.is_nan())?;
    let condition = match (function, above) {
        ("max", true) => Condition::MaxAbove { limit, or_equal },
        ("max", false) => Condition::MaxBelow { limit, or_equal },
        ("min", true) => Condition::MinAbove { limit, or_equal },
        ("min", false) => Condition::MinBelow { limit, or_equal },
        ("drift", true) if limit >= 0.0 => Condition::Drift { limit, or_equal },
        _ => return None,
    };
    (!variable.is_empty()).then_some((variable, condition))
}

/// `every=1, only=u,v, box=10:20,0:64, stop`: a piece without `=` goes on with the one before it. The change, and whether to warn.
fn changes(text: &str) -> Result<(Change, bool)> {
    let mut items: Vec<(&str, String)> = Vec::new();
    let (mut change, mut warns) = (Change::default(), false);
    for piece in text.split(',').map(str::trim) {
        match (piece.split_once('='), piece, items.last_mut()) {
            (Some((key, value)), ..) => items.push((key.trim(), value.trim().to_string())),
            (None, "warn", _) => warns = true,
            (None, "stop", _) => change.stop = Some(Stop::Now),
            (None, "", None) => {}
            (None, more, _) if more.starts_with("stop after ") => {
                _ = change.take("stop-after", more["stop after ".len()..].trim())?;
            }
            (None, more, Some((_, value))) => {
                value.push(',');
                value.push_str(more);
            }
            (None, other, None) => return Err(unknown(other)),
        }
    }
    for (key, value) in items {
        let known = match (key, value.as_str()) {
            ("only", "all") => change.take("only-all", "yes")?,
            ("box", "all") => change.take("box-all", "yes")?,
            ("method", "declared") => change.take("method-declared", "yes")?,
            ("only", names) => {
                names.split(',').try_for_each(|name| change.take("only", name.trim()).map(drop))?;
                true
            }
            ("every" | "box" | "stop" | "method", value) => change.take(key, value)?,
            _ => false,
        };
        if !known {
            return Err(unknown(key));
        }
    }
    Ok((change, warns))
}

fn unknown(change: &str) -> Error {
    Error::new(ErrorKind::Config, format!("unknown change \"{change}\": expected {CHANGES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(min: f64, max: f64) -> Seen {
        Seen { range: Some((min, max)), finite: true }
    }

    /// The outputs, from 0, at whose open rules act: ranks note these values for each output, in turn.
    fn acts(text: &str, outputs: &[&[Seen]]) -> Vec<(usize, String)> {
        let ranks = outputs.iter().map(|values| values.len()).max().unwrap();
        let mut rules = vec![Rules::parse(text).unwrap(); ranks];
        let (mut found, mut exchanges) = (Vec::new(), 0);
        for (output, values) in outputs.iter().chain([&[][..]].iter()).enumerate() {
            let news = rules.iter().any(Rules::has_news);
            exchanges += usize::from(news);
            let all: Vec<u64> = (0..rules[0].numbers().len())
                .map(|n| rules.iter().map(|rank| rank.numbers()[n]).max().unwrap())
                .collect();
            let decided: Vec<Vec<Acts>> = rules.iter_mut().map(|rank| rank.decide(news.then_some(&all[..]))).collect();
            assert!(decided.iter().all(|of_rank| *of_rank == decided[0]), "all ranks decide alike");
            let said = |act: &Acts| if act.warns { format!("warn, {}", act.change) } else { act.change.to_string() };
            found.extend(decided[0].iter().map(|act| (output, said(act))));
            rules.iter_mut().zip(*values).for_each(|(rank, value)| rank.note("T", value));
        }
        assert!(exchanges <= outputs.len());
        found
    }

    #[test]
    fn a_rule_acts_when_its_condition_has_held_for_so_many_outputs() {
        let (low, high) = (seen(0.0, 0.4), seen(-1.0, 0.6));
        let rule = "when max(T) > 0.5 for 2 steps: every=1, box=10:20,0:64";
        let on_any =
            [&[low, low][..], &[low, high], &[high, low], &[low, high], &[low, low], &[high, high], &[high, low]];
        let change = "every=1, box=10:20,0:64".to_string();
        assert_eq!(acts(rule, &on_any), [(3, change.clone()), (7, change)], "once, until it has not held");
        let nothing = Seen { range: None, finite: true };
        assert_eq!(acts("when max(T) < 0.5: stop", &[&[low, high], &[nothing, low], &[low, low]]).len(), 1);
        assert_eq!(acts("when max(T) < 0.5: stop", &[&[nothing, nothing][..]; 3]), [], "of no value nothing holds");
        assert_eq!(acts("when min(T) >= 0: only=T", &[&[low, high], &[low, low]]), [(2, "only=T".into())]);
        assert_eq!(acts("when min(T) > 0: only=T", &[&[low, low]]), []);
        assert_eq!(acts("when min(T) <= -1: every=3", &[&[low, high]]), [(1, "every=3".into())]);
        let infinite = Seen { finite: false, ..low };
        let two = "when not finite(T): stop | when max(T) >= 0.4: every=2";
        assert_eq!(acts(two, &[&[low, infinite]]), [(1, "stop=yes".into()), (1, "every=2".into())]);
    }

    #[test]
    fn a_scalar_drifts_from_its_first_value_of_the_run() {
        let scalar = |value: f64| [seen(value, value)];
        let outputs = [scalar(-2.0), scalar(-2.01), scalar(-2.03), scalar(-2.0), scalar(-1.9)];
        let outputs: Vec<&[Seen]> = outputs.iter().map(|values| &values[..]).collect();
        let found = [(3, "warn, every=1".to_string()), (5, "warn, every=1".to_string())];
        assert_eq!(acts("when drift(T) > 0.01: warn, every=1", &outputs), found);
        let from_nothing = [&scalar(0.0)[..], &scalar(0.005), &scalar(0.01), &scalar(0.02)];
        assert_eq!(acts("when drift(T) >= 0.01 for 2 steps: warn", &from_nothing), [(4, "warn, ".into())]);
        let lost = [&[Seen { range: None, finite: false }][..], &scalar(5.0), &scalar(5.0)];
        assert_eq!(acts("when drift(T) > 0: stop", &lost), [], "the first value is the first finite one");
    }

    #[test]
    fn a_run_that_offers_no_output_for_so_long_is_told_of_at_the_next_one() {
        let text = "# health\nwhen min(a#b) > 5: stop\nwhen no output for 1min: warn # not even one that is not wanted\n\nwhen max(T) > 9: stop after restart";
        let mut rules = Rules::parse(text).unwrap();
        assert_eq!(rules.idle().collect::<Vec<_>>(), [("when no output for 1min: warn", Duration::from_secs(60))]);
        let mut told = Vec::new();
        for (output, seconds) in [0, 60, 61, 600, 1, 90].into_iter().enumerate() {
            rules.note_time(Duration::from_secs(seconds));
            let all = rules.numbers().to_vec();
            let acts = rules.decide(rules.has_news().then_some(&all[..]));
            told.extend(acts.iter().map(|act| (output, act.to_string())));
            rules.note("T", &seen(0.0, if output == 4 { 10.0 } else { 1.0 }));
        }
        let warning = "warning (rule: when no output for 1min: warn)";
        let stop = "stop after restart (rule: when max(T) > 9: stop after restart)";
        assert_eq!(told, [(2, warning), (5, warning), (5, stop)].map(|(output, text)| (output, text.to_string())));
    }

    #[test]
    fn a_rule_may_change_the_method() {
        let rules =
            Rules::parse("when max(T) > 1: method=STAGING;staging=/run/p,2, every=1\nwhen min(T) < 0: method=declared")
                .unwrap();
        let methods: Vec<String> = rules.methods().map(|(_, method)| method.to_string()).collect();
        assert_eq!(methods, ["STAGING;staging=/run/p,2"]);
    }

    #[test]
    fn steady_values_need_no_exchange() {
        let mut rules = Rules::parse("when max(T) > 0: every=2").unwrap();
        for output in 0..5 {
            assert_eq!(rules.has_news(), output == 1, "{output}");
            let all = rules.numbers().to_vec();
            rules.decide(rules.has_news().then_some(&all[..]));
            rules.note("T", &seen(1.0, 2.0));
            rules.note("other", &seen(-9.0, -9.0));
        }
    }

    #[test]
    fn names_are_those_of_the_group_and_mistakes_name_the_rule() {
        let variables = ["/f/T", "/dt"].map(String::from);
        let arrays = Arrays { names: &variables[..1], dimensions: &[2] };
        let checked = |text: &str| {
            let mut rules = Rules::parse(text)?;
            assert!(rules.check(&[], Arrays { names: &[], dimensions: &[] }).is_ok(), "nothing is declared yet");
            rules.check(&variables, arrays).map(|()| rules)
        };
        let rules = checked("when max(T) > 1 : only=T, every = 4|when min(dt) < 1e-9 for 1 step: stop").unwrap();
        assert!(rules.need("/f/T") && rules.need("/dt") && !rules.need("T"));
        let early = Rules::parse("when max(T) > 1: stop").unwrap();
        assert!(early.need("/f/T") && early.need("T") && !early.need("/f/aT"), "declared as it is written");
        assert!(checked("").unwrap().is_empty());
        for (text, why) in [
            ("max(T) > 1: stop", "expected as: when max(T)"),
            ("when max(T) > 1", "expected as: when max(T)"),
            ("when T > 1: stop", "expected max(NAME) or min(NAME)"),
            ("when max() > 1: stop", "expected max(NAME) or min(NAME)"),
            ("when max(T) = 1: stop", "expected max(NAME) or min(NAME)"),
            ("when max(T) > NaN: stop", "expected max(NAME) or min(NAME)"),
            ("when mean(T) > 1: stop", "expected max(NAME) or min(NAME)"),
            ("when not finite(T) > 1: stop", "expected max(NAME) or min(NAME)"),
            ("when max(T) > 1 for no steps: stop", "expected a number of steps"),
            ("when max(T) > 1 for 0 steps: stop", "expected a number of steps"),
            ("when max(T) > 1:", "it changes nothing"),
            ("when max(T) > 1: method=", "expected NAME, or NAME;KEY=VALUE"),
            ("when max(T) > 1: stop after", "unknown change \"stop after\""),
            ("when max(T) > 1: stop after ,every=1", "unknown change \"stop after\""),
            ("when drift(f/T) > 1: stop", "drift needs a scalar, and /f/T is an array"),
            ("when drift(dt) < 1: stop", "expected max(NAME) or min(NAME)"),
            ("when drift(dt) > -1: stop", "expected max(NAME) or min(NAME)"),
            ("when no output for long: warn", "expected a time such as 10min"),
            ("when no output for 10min:", "it changes nothing"),
            ("when max(T) > 1: halt", "unknown change \"halt\""),
            ("when max(T) > 1: every=0", "invalid value: every 0"),
            ("when max(T) > 1: box=3", "expected FROM:TO"),
            ("when max(T) > 1: box=3:4", "no global array of 1 dimensions"),
            ("when max(u) > 1: stop", "no variable \"u\""),
            ("when max(T) > 1: only=u", "no array \"u\""),
        ] {
            let e = checked(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config, "{e}");
            assert!(e.to_string().contains(&format!("rule \"{text}\": ")) && e.to_string().contains(why), "{e}");
        }
        assert!(Rules::parse(&"when max(T) > 1: stop|".repeat(MOST)).is_ok());
        assert!(Rules::parse(&"when max(T) > 1: stop|".repeat(MOST + 1)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*", tail in "(when |max\\(T\\)|[<>=:|,0-9 ]|for|steps|every|only|box|stop|after|warn|method|drift\\(|no output for|not finite\\(){0,12}") {
            let _ = Rules::parse(&text);
            let _ = Rules::parse(&format!("when {tail}"));
        }
    }
}

//! The next candidate to run, the end of the search, and the evaluation of times. Pure: measures nothing itself.
//!
//! Candidates race in rounds, one run each, so that a storage that grows slower or faster meanwhile does so for all. One
//! that is clearly slower than the best is left behind. When the methods have had [`ENOUGH`] runs each, the best one's
//! parameters are varied, one at a time; where a variant becomes the best, so are its.
//!
//! Times are compared by their medians. How far a median can be trusted follows from the quartiles, between which half of the
//! runs lie, and the number of runs: 1.57 times their distance over the root of that number, either way (the notches of box
//! plots: McGill, Tukey, Larsen, The American Statistician 1978). *Clearly slower* is one whose median stays above the other's by
//! more than both; with fewer than [`ENOUGH`] runs, one for which the difference is out of all proportion. All else is noise, and is
//! said to be. One that was left behind comes back where the best turns out to be less sure than it seemed.

/// A method with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub method: String,
    pub parameters: Vec<(String, String)>,
}

impl Candidate {
    #[cfg(test)]
    pub fn new(method: &str, parameters: &[(&str, &str)]) -> Candidate {
        let own = |(k, v): &(&str, &str)| ((*k).to_string(), (*v).to_string());
        Candidate { method: method.to_string(), parameters: parameters.iter().map(own).collect() }
    }

    /// The same with one parameter changed.
    pub fn with(&self, key: &str, value: &str) -> Candidate {
        let mut parameters = self.parameters.clone();
        match parameters.iter_mut().find(|(k, _)| k.eq_ignore_ascii_case(key)) {
            Some((_, known)) => *known = value.to_string(),
            None => parameters.push((key.to_string(), value.to_string())),
        }
        Candidate { parameters, ..self.clone() }
    }

    /// `key=value;key=value`.
    pub fn parameter_text(&self) -> String {
        self.parameters.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(";")
    }
}

/// Runs after which a candidate is judged.
pub const ENOUGH: usize = 5;
/// Runs after which no more is to be learnt of one.
pub const MOST: usize = 25;
/// Runs that the winner has at least, where time allows.
const SURE: usize = 9;

/// The state of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is still in the race.
    Racing,
    /// It was clearly slower than the best.
    LeftBehind,
    /// It could not be run.
    Failed(String),
}

/// One candidate and its times.
#[derive(Debug, Clone)]
pub struct Entry {
    pub candidate: Candidate,
    /// Seconds for an output, in the order of runs.
    pub times: Vec<f64>,
    pub fate: Fate,
}

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    pub median: f64,
    pub lower: f64,
    pub upper: f64,
}

impl Times {
    /// How far the median of so many runs can be off.
    fn noise(&self, runs: usize) -> f64 {
        1.57 * (self.upper - self.lower) / (runs as f64).sqrt()
    }
}

impl Entry {
    /// Evaluation of its times; `None` before the first run.
    pub fn summary(&self) -> Option<Times> {
        let mut sorted = self.times.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len().checked_sub(1)? as f64);
            let (low, part) = (place.floor() as usize, place.fract());
            let high = (low + 1).min(sorted.len() - 1);
            Some(sorted[low] + part * (sorted[high] - sorted[low]))
        };
        Some(Times { median: at(0.5)?, lower: at(0.25)?, upper: at(0.75)? })
    }

    fn is_racing(&self) -> bool {
        self.fate == Fate::Racing
    }

    /// Whether it is slower than another by more than the noise.
    fn is_clearly_slower(&self, other: &Entry) -> bool {
        let (Some(own), Some(best)) = (self.summary(), other.summary()) else { return false };
        let runs = self.times.len().min(other.times.len());
        match runs {
            0 | 1 => false,
            2 => own.lower > 4.0 * best.upper,
            few if few < ENOUGH => own.lower > 2.0 * best.upper,
            _ => own.median - own.noise(self.times.len()) > best.median + best.noise(other.times.len()),
        }
    }
}

/// The race.
pub struct Search {
    entries: Vec<Entry>,
    /// Candidates whose variants were entered.
    varied: Vec<usize>,
    variants: fn(&Candidate, u32) -> Vec<Candidate>,
    ranks: u32,
}

impl Search {
    /// - `first`: candidates that are always run; the first of them is kept unless another is clearly faster.
    /// - `variants`: variants of a candidate for this number of ranks.
    pub fn new(first: Vec<Candidate>, variants: fn(&Candidate, u32) -> Vec<Candidate>, ranks: u32) -> Search {
        let mut search = Search { entries: Vec::new(), varied: Vec::new(), variants, ranks };
        search.enter(first);
        search
    }

    fn enter(&mut self, candidates: Vec<Candidate>) {
        for candidate in candidates {
            if !self.entries.iter().any(|e| e.candidate == candidate) {
                self.entries.push(Entry { candidate, times: Vec::new(), fate: Fate::Racing });
            }
        }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The next candidate to run; `None` when the search is complete, or the time is up.
    ///
    /// - `left`: seconds; one that takes longer is not begun.
    pub fn next(&mut self, left: f64) -> Option<usize> {
        if left <= 0.0 {
            return None;
        }
        self.leave_behind();
        let racing: Vec<usize> = (0..self.entries.len()).filter(|i| self.entries[*i].is_racing()).collect();
        let fewest = racing.iter().map(|i| self.entries[*i].times.len()).min()?;
        if fewest >= ENOUGH
            && let Some(best) = self.best()
            && !self.varied.contains(&best)
        {
            self.varied.push(best);
            let before = self.entries.len();
            self.enter((self.variants)(&self.entries[best].candidate, self.ranks));
            if self.entries.len() > before {
                return self.next(left);
            }
        }
        let rounds = if racing.len() == 1 { SURE } else { MOST };
        let fits = |i: &usize| self.entries[*i].summary().is_none_or(|t| 1.2 * t.upper <= left);
        let open = racing.into_iter().filter(|i| self.entries[*i].times.len() < rounds).filter(fits);
        open.min_by_key(|i| self.entries[*i].times.len())
    }

    fn leave_behind(&mut self) {
        let Some(best) = self.best() else { return };
        for i in 0..self.entries.len() {
            if matches!(self.entries[i].fate, Fate::Failed(_)) {
                continue;
            }
            let slower = i != best && self.entries[i].is_clearly_slower(&self.entries[best]);
            self.entries[i].fate = if slower { Fate::LeftBehind } else { Fate::Racing };
        }
    }

    /// The one with the smallest median, among those that were run enough if there are such.
    fn best(&self) -> Option<usize> {
        let of = |least: usize| {
            let run = (0..self.entries.len()).filter(|i| self.entries[*i].times.len() >= least.max(1));
            let timed = run.filter_map(|i| Some((i, self.entries[i].summary()?.median)));
            timed
                .filter(|(i, _)| !matches!(self.entries[*i].fate, Fate::Failed(_)))
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .map(|(i, _)| i)
        };
        of(ENOUGH).or_else(|| of(1))
    }

    /// A run took so many seconds for an output.
    pub fn ran(&mut self, entry: usize, seconds: f64) {
        self.entries[entry].times.push(seconds);
    }

    /// A run failed: it is not run again.
    pub fn failed(&mut self, entry: usize, why: String) {
        self.entries[entry].fate = Fate::Failed(why);
    }

    /// The best candidate, at the end of the race; `None` if none ran.
    pub fn verdict(&mut self) -> Option<Verdict> {
        self.leave_behind();
        let fastest = self.best()?;
        let judged = self.entries[fastest].times.len().min(ENOUGH);
        let alike: Vec<usize> = (0..self.entries.len())
            .filter(|i| *i != fastest && self.entries[*i].is_racing() && self.entries[*i].times.len() >= judged)
            .collect();
        // The first entry needs the fewest words, or is in use already.
        let choice = alike.iter().copied().chain([fastest]).min()?;
        let few = self.entries[choice].times.len() < ENOUGH;
        Some(Verdict {
            choice,
            fastest,
            alike: alike.into_iter().chain([fastest]).filter(|i| *i != choice).collect(),
            few,
        })
    }
}

/// The result of the race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The candidate to use.
    pub choice: usize,
    /// The smallest median; another than `choice` where the difference is noise.
    pub fastest: usize,
    /// From which `choice` differs by no more than the noise.
    pub alike: Vec<usize>,
    /// Too few runs for a decision.
    pub few: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_variants(_: &Candidate, _: u32) -> Vec<Candidate> {
        Vec::new()
    }

    fn named(names: &[&str]) -> Vec<Candidate> {
        names.iter().map(|name| Candidate::new(name, &[])).collect()
    }

    /// Runs the race with a simulated clock; `time` returns the duration of the n-th run of a candidate.
    fn race(mut search: Search, budget: f64, time: impl Fn(&Candidate, usize) -> f64) -> (Search, f64) {
        let mut clock = 0.0;
        for _ in 0..10_000 {
            let Some(next) = search.next(budget - clock) else { return (search, clock) };
            let entry = &search.entries()[next];
            let took = time(&entry.candidate, entry.times.len());
            clock += took;
            search.ran(next, took);
        }
        panic!("it never ends");
    }

    /// Noise that is always the same: up to a twentieth either way.
    fn noisy(seconds: f64, run: usize) -> f64 {
        seconds * (0.95 + 0.1 * ((run * 7919 + 13) % 101) as f64 / 100.0)
    }

    #[test]
    fn the_fastest_wins_and_the_slow_ones_take_little_of_the_time() {
        let search = Search::new(named(&["a", "b", "c"]), no_variants, 8);
        let (mut search, _) = race(search, 1000.0, |c, run| match c.method.as_str() {
            "a" => noisy(2.0, run),
            "b" => noisy(1.0, run),
            _ => noisy(30.0, run),
        });
        let verdict = search.verdict().unwrap();
        assert_eq!((verdict.choice, verdict.fastest, verdict.few), (1, 1, false));
        assert!(verdict.alike.is_empty());
        let runs: Vec<usize> = search.entries().iter().map(|e| e.times.len()).collect();
        assert_eq!(runs, [ENOUGH, SURE, 2], "left behind as soon as it shows");
    }

    #[test]
    fn one_that_was_left_behind_comes_back_where_the_best_was_only_lucky() {
        let search = Search::new(named(&["used", "lucky"]), no_variants, 8);
        // Five fast runs, then slow ones: the other is as good after all.
        let (mut search, _) = race(search, 1000.0, |c, run| match (c.method.as_str(), run) {
            ("lucky", 0..5) => noisy(0.8, run),
            ("lucky", _) => noisy(1.2, run),
            _ => noisy(1.0, run),
        });
        let verdict = search.verdict().unwrap();
        assert_eq!(verdict.choice, 0, "{:?}", search.entries());
    }

    #[test]
    fn what_is_in_use_stays_where_nothing_is_clearly_faster() {
        let search = Search::new(named(&["used", "other"]), no_variants, 8);
        // The other is 1 % faster, the noise ten times that.
        let (mut search, _) = race(search, 1000.0, |c, run| match c.method.as_str() {
            "used" => noisy(1.01, run),
            _ => noisy(1.0, run + 31),
        });
        let verdict = search.verdict().unwrap();
        assert_eq!((verdict.choice, &verdict.alike[..]), (0, &[1][..]));
        assert!(search.entries().iter().all(|e| e.times.len() == MOST));
    }

    #[test]
    fn the_best_ones_parameters_are_varied_until_nothing_new_is_better() {
        fn variants(c: &Candidate, _: u32) -> Vec<Candidate> {
            if c.method != "b" {
                return vec![c.with("never", "asked")];
            }
            ["1", "2", "4"].iter().map(|n| c.with("files", n)).chain([c.with("deep", "yes")]).collect()
        }
        let search = Search::new(named(&["a", "b"]), variants, 8);
        let (mut search, _) = race(search, 1000.0, |c, run| {
            let mut seconds = if c.method == "a" { 3.0 } else { 2.0 };
            for (key, value) in &c.parameters {
                seconds *= match (key.as_str(), value.as_str()) {
                    ("files", "2") => 0.5,
                    ("deep", _) => 0.7,
                    _ => 1.0,
                };
            }
            noisy(seconds, run)
        });
        let verdict = search.verdict().unwrap();
        assert_eq!(search.entries()[verdict.choice].candidate.parameter_text(), "files=2;deep=yes");
        assert!(!search.entries().iter().any(|e| e.candidate.parameters.iter().any(|(k, _)| k == "never")));
    }

    #[test]
    fn time_is_kept_and_what_it_was_too_short_for_is_known() {
        for budget in [0.5, 3.0, 10.0, 50.0] {
            let search = Search::new(named(&["a", "b", "c", "d"]), no_variants, 8);
            let (mut search, clock) = race(search, budget, |_, run| noisy(1.0, run));
            // No run is begun that is not over in time but the first of each, of which nothing is known.
            assert!(clock <= budget.max(1.0) + 1.1, "{budget}: {clock}");
            let verdict = search.verdict().unwrap();
            assert_eq!(verdict.few, search.entries()[verdict.choice].times.len() < ENOUGH);
        }
        assert_eq!(Search::new(named(&["a"]), no_variants, 8).next(0.0), None);
    }

    #[test]
    fn what_fails_is_not_run_again_and_wins_nothing() {
        let mut search = Search::new(named(&["a", "b"]), no_variants, 8);
        assert_eq!(search.next(1.0), Some(0));
        search.failed(0, "no".into());
        for _ in 0..SURE {
            assert_eq!(search.next(100.0), Some(1));
            search.ran(1, 1.0);
        }
        assert_eq!(search.next(100.0), None);
        assert_eq!(search.verdict().map(|v| (v.choice, v.alike)), Some((1, vec![])));
        search.failed(1, "no".into());
        assert_eq!(search.verdict(), None);
    }

    #[test]
    fn quartiles_lie_between_the_runs() {
        let entry =
            |times: &[f64]| Entry { candidate: Candidate::new("a", &[]), times: times.to_vec(), fate: Fate::Racing };
        let of = |times: &[f64]| entry(times).summary().map(|t| (t.lower, t.median, t.upper));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0]), Some((2.0, 2.0, 2.0)));
        assert_eq!(of(&[3.0, 1.0]), Some((1.5, 2.0, 2.5)));
        assert_eq!(of(&[5.0, 1.0, 3.0, 2.0, 4.0]), Some((2.0, 3.0, 4.0)));
    }
}

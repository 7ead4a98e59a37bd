//! Which report is sent next, and what an answer means (docs/wire.md, "Over HTTP"). The program makes the requests.

use std::collections::{BTreeMap, VecDeque};

use crate::error::Result;
use crate::outbox::{Outbox, WaitingReport};
use crate::randomness::{SystemWords, Words};

/// Refusals that say nothing against the report.
const LATER: [u16; 3] = [408, 425, 429];

/// What a collector says against a report itself, which it would say again.
const VERDICTS: [&str; 6] =
    ["malformed", "wrong_length", "unknown_collection", "foreign_epoch", "retired_collection", "oversize"];

/// Reports that are forgotten at once: one change of the state for all of them.
const AT_ONCE: usize = 16;

/// A collector cannot ask for a longer pause, seconds.
const LONGEST: f64 = 86_400.0;

/// What a collector has answered to a request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// 0 where there is none.
    pub status: u16,
    /// The header Retry-After; empty without one.
    pub retry_after: String,
    /// The first 4 KiB of the body at least, where the status is an error.
    pub body: Vec<u8>,
}

/// Hands out the reports that are due, one by one, until the collector does not take one.
pub struct Sender {
    first_pause: f64,
    due: VecDeque<WaitingReport>,
    answered: Vec<WaitingReport>,
    failures: i32,
    /// Nothing is sent before, seconds since 1970.
    pub next_attempt: f64,
    /// Reports that the collector has taken.
    pub sent: u64,
    /// Reports that it refused for good, by its reason.
    pub dropped: BTreeMap<String, u64>,
}

impl Default for Sender {
    fn default() -> Self {
        let (due, answered, dropped) = (VecDeque::new(), Vec::new(), BTreeMap::new());
        Self { first_pause: 2.0, due, answered, failures: 0, next_attempt: 0.0, sent: 0, dropped }
    }
}

impl Sender {
    /// A report to post now, and its bytes; None where nothing is due, or a pause lasts.
    pub fn next(&mut self, outbox: &Outbox<'_>, now: f64) -> Result<Option<(WaitingReport, Vec<u8>)>> {
        // A pause is never longer; the clock was ahead when this one began.
        if now < self.next_attempt && self.next_attempt <= now + LONGEST {
            return Ok(None);
        }
        if self.due.is_empty() {
            self.forget(outbox)?;
            self.due = outbox.waiting()?.into_iter().filter(|one| one.due as f64 <= now).collect();
        }
        while let Some(one) = self.due.pop_front() {
            if let Some(bytes) = outbox.read(&one)? {
                return Ok(Some((one, bytes)));
            }
        }
        self.forget(outbox)?;
        Ok(None)
    }

    /// What became of the request with a report of `next`.
    pub fn answered(&mut self, outbox: &Outbox<'_>, one: WaitingReport, answer: &Answer, now: f64) -> Result<()> {
        if (200..300).contains(&answer.status) {
            self.sent += 1;
            self.failures = 0;
        } else if let Some(reason) = verdict(answer) {
            *self.dropped.entry(reason).or_default() += 1;
        } else {
            let longest = (self.first_pause * 2f64.powi(self.failures.min(40))).min(LONGEST);
            self.failures += 1;
            let drawn = longest * (1.0 + SystemWords.next()? as f64 / 2f64.powi(64)) / 2.0;
            self.next_attempt = now + drawn.max(asked_for(&answer.retry_after, now));
            self.due.clear();
            return self.forget(outbox);
        }
        self.answered.push(one);
        if self.answered.len() < AT_ONCE { Ok(()) } else { self.forget(outbox) }
    }

    fn forget(&mut self, outbox: &Outbox<'_>) -> Result<()> {
        if !self.answered.is_empty() {
            outbox.acknowledge(&self.answered)?;
            self.answered.clear();
        }
        Ok(())
    }
}

/// The collector's reason to refuse a report for good; None where it may be taken later, or somebody else answered.
fn verdict(answer: &Answer) -> Option<String> {
    if !(400..500).contains(&answer.status) || LATER.contains(&answer.status) {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    let reason = body.get("reason")?.as_str()?;
    VERDICTS.contains(&reason).then(|| reason.to_owned())
}

/// Seconds of a Retry-After header, a number or a date; 0 for anything else.
fn asked_for(text: &str, now: f64) -> f64 {
    let seconds = if !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit()) {
        text.parse().unwrap_or(LONGEST)
    } else {
        date(text).map_or(0.0, |then| then - now)
    };
    seconds.clamp(0.0, LONGEST)
}

/// Seconds since 1970 of a date such as "Sun, 06 Nov 1994 08:49:37 GMT".
fn date(text: &str) -> Option<f64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let place = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? as i64 / 3;
    let clock: Vec<i64> = time.split(':').map(|one| one.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    // Years begin in March, so that the day of February that comes and goes is the last one.
    let (day, year) = (day.parse::<i64>().ok()?, year.parse::<i64>().ok()?);
    let (year, month) = if place < 2 { (year - 1, place + 10) } else { (year, place - 2) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some((((days * 24 + hours) * 60 + minutes) * 60 + seconds) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_a_day() {
        for (text, seconds) in [
            ("120", 120.0),
            ("99999999999", LONGEST),
            ("", 0.0),
            ("-5", 0.0),
            ("soon", 0.0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 37.0),
            ("Sun, 06 Nov 1994 08:48:59 GMT", 0.0),
            ("Tue, 29 Feb 2028 00:00:00 GMT", LONGEST),
        ] {
            assert_eq!(asked_for(text, 784_111_740.0), seconds, "{text}");
        }
        assert_eq!(date("Tue, 29 Feb 2028 12:00:00 GMT"), Some(1_835_438_400.0));
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0.0));
    }

    #[test]
    fn a_collector_refuses_for_good_by_its_reason_only() {
        let of = |status, body: &str| verdict(&Answer { status, body: body.into(), ..Answer::default() });
        assert_eq!(of(400, r#"{"reason": "wrong_length"}"#).as_deref(), Some("wrong_length"));
        for (status, body) in [
            (429, r#"{"reason": "wrong_length"}"#),
            (500, r#"{"reason": "wrong_length"}"#),
            (302, r#"{"reason": "wrong_length"}"#),
            (404, "<html>"),
            (404, r#"{"reason": 4}"#),
            (400, r#"{"reason": "duplicate"}"#),
            (0, ""),
        ] {
            assert_eq!(of(status, body), None, "{status} {body}");
        }
    }
}

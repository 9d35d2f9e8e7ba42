//! Smoothed ranks: who has most marginal hits, over several rounds.

use std::collections::BTreeMap;

/// The ranks of classes or pools by a score, as moving averages over rounds. The lowest score has rank 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks(BTreeMap<u16, f64>);

impl Ranks {
    /// Ranks the scores and folds the ranks in: `keep` of the old average and `1 − keep` of the new rank. Equal scores have
    /// the mean of their ranks, so that they are told apart by nothing. Who is new has the rank itself; who is missing is
    /// forgotten.
    pub(super) fn update(&mut self, mut scores: Vec<(u16, u64)>, keep: f64) {
        scores.sort_by_key(|(_, score)| *score);
        let mut smoothed = BTreeMap::new();
        let mut first = 0;
        for tied in scores.chunk_by(|a, b| a.1 == b.1) {
            let rank = first as f64 + (tied.len() - 1) as f64 / 2.0;
            first += tied.len();
            for (who, _) in tied {
                let average = self.0.get(who).map_or(rank, |old| keep * old + (1.0 - keep) * rank);
                smoothed.insert(*who, average);
            }
        }
        self.0 = smoothed;
    }

    /// The smoothed rank.
    pub(super) fn of(&self, who: u16) -> f64 {
        self.0.get(&who).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranks: &Ranks) -> Vec<(u16, f64)> {
        ranks.0.iter().map(|(who, rank)| (*who, (rank * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn ranks_are_averages_over_rounds() {
        let mut ranks = Ranks::default();
        ranks.update(vec![(1, 50), (2, 10), (3, 99)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 0.0), (3, 2.0)]);
        ranks.update(vec![(1, 50), (2, 100), (3, 0)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 1.4), (3, 0.6)]);
        ranks.update(vec![(1, 50), (2, 100)], 0.3);
        assert_eq!(all(&ranks), [(1, 0.3), (2, 1.12)]);
        assert_eq!(ranks.of(3), 0.0, "who is gone is forgotten");
    }

    #[test]
    fn equal_scores_have_one_rank() {
        let mut ranks = Ranks::default();
        ranks.update(vec![(1, 7), (2, 7), (3, 7), (4, 9)], 0.3);
        assert_eq!(all(&ranks), [(1, 1.0), (2, 1.0), (3, 1.0), (4, 3.0)]);
    }
}

//! Manual: toward configured numbers of slabs.

use std::cmp::Reverse;

use super::Move;
use super::view::{ClassView, Round};

/// Moves slabs until each class has its configured number. Classes without a number are left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manual {
    /// The number of slabs by class.
    pub slabs: Vec<(u8, u64)>,
}

impl Manual {
    fn target(&self, class: &ClassView) -> Option<u64> {
        self.slabs.iter().find(|(number, _)| *number == class.number).map(|(_, slabs)| *slabs)
    }

    /// The surplus of slabs of the class, if any.
    fn surplus(&self, class: &ClassView) -> Option<u64> {
        class.slabs.checked_sub(self.target(class)?).filter(|surplus| *surplus > 0)
    }

    /// The deficit of slabs of the class, if any.
    fn deficit(&self, class: &ClassView) -> Option<u64> {
        self.target(class)?.checked_sub(class.slabs).filter(|deficit| *deficit > 0)
    }

    pub(super) fn victim<'r>(&self, round: &'r Round, except: Option<u8>) -> Option<(&'r ClassView, String)> {
        let rich = round.victims(1, except).into_iter();
        let rich = rich.filter_map(|class| Some((class, self.surplus(class)?)));
        let (class, surplus) = rich.min_by_key(|(class, surplus)| (Reverse(*surplus), class.number))?;
        Some((class, format!("{class} has {surplus} slabs too many")))
    }

    pub(super) fn pick(&self, round: &Round) -> Option<Move> {
        let (victim, why) = self.victim(round, None)?;
        let poor = round.classes.iter().filter_map(|class| Some((class, self.deficit(class)?)));
        let (receiver, deficit) = poor.min_by_key(|(class, deficit)| (Reverse(*deficit), class.number))?;
        let reason = format!("{why}, and {receiver} has {deficit} too few");
        Some(Move { victim: victim.number, receiver: Some(receiver.number), reason })
    }
}

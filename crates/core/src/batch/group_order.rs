//! The order within FIFO groups: which letters may go together, and which letter holds up the others of its
//! group.

use std::collections::{HashMap, VecDeque};

/// The rounds in which items go. Items of one group go one after the other, each in a round of its own. Items
/// without a group go in the first round. An item that must not be overtaken blocks its group with a reason
/// `W`.
#[derive(Debug)]
pub struct GroupOrder<W = ()> {
    /// The number of each item's group.
    groups: Vec<Option<usize>>,
    /// The reason for which each group is blocked, if it is.
    blocked: Vec<Option<W>>,
    rounds: VecDeque<Vec<usize>>,
}

impl<W> GroupOrder<W> {
    /// Creates the order of items by their groups. Items are numbered from 0, as they come.
    pub fn new<'g>(items: impl IntoIterator<Item = Option<&'g str>>) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut met: Vec<usize> = Vec::new();
        let (mut groups, mut rounds) = (Vec::new(), VecDeque::new());
        for (item, name) in items.into_iter().enumerate() {
            let group = name.map(|name| {
                let next = numbers.len();
                *numbers.entry(name).or_insert(next)
            });
            met.resize(numbers.len(), 0);
            let round = group.map_or(0, |group| {
                met[group] += 1;
                met[group] - 1
            });
            if rounds.len() <= round {
                rounds.resize_with(round + 1, Vec::new);
            }
            rounds[round].push(item);
            groups.push(group);
        }
        Self { groups, blocked: met.iter().map(|_| None).collect(), rounds }
    }

    /// Returns the items of the next round, blocked ones too, and `None` after the last round.
    pub fn next_round(&mut self) -> Option<Vec<usize>> {
        self.rounds.pop_front()
    }

    /// Reports whether there is no round left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Blocks the group of an item. An item without a group holds up no other item.
    pub fn block(&mut self, item: usize, why: W) {
        if let Some(group) = self.groups[item] {
            self.blocked[group] = Some(why);
        }
    }

    /// Returns the reason why the group of an item is blocked, if it is.
    #[must_use]
    pub fn blocked(&self, item: usize) -> Option<&W> {
        self.groups[item].and_then(|group| self.blocked[group].as_ref())
    }
}

impl<W> Default for GroupOrder<W> {
    fn default() -> Self {
        Self::new([])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(items: &[Option<&str>]) -> Vec<Vec<usize>> {
        let mut order: GroupOrder = GroupOrder::new(items.iter().copied());
        std::iter::from_fn(|| order.next_round()).collect()
    }

    #[test]
    fn items_without_a_group_go_together() {
        assert_eq!(rounds(&[None, None, None]), [[0, 1, 2]]);
        assert!(rounds(&[]).is_empty());
    }

    #[test]
    fn a_round_has_one_item_of_each_group_in_their_order() {
        let items = [Some("a"), Some("a"), Some("b"), Some("a"), Some("b"), None];
        assert_eq!(rounds(&items), [vec![0, 2, 5], vec![1, 4], vec![3]]);
    }

    #[test]
    fn an_item_blocks_its_own_group_only() {
        let mut order = GroupOrder::new([Some("a"), Some("b"), Some("a"), None, None]);
        order.block(0, "failed");
        order.block(3, "failed");
        let blocked: Vec<_> = (0..5).map(|item| order.blocked(item).is_some()).collect();
        assert_eq!(blocked, [true, false, true, false, false]);
        assert_eq!(order.blocked(2), Some(&"failed"));
    }
}

//! Shows that nothing is lost, whatever fails: the function in an account with faults, and the ledger that is kept of
//! every letter. The account is `sim`'s, behind its loopback socket.
//!
//! | module | what it holds |
//! |---|---|
//! | [`letters`] | letters of every kind, where they must go, how they must arrive |
//! | [`faults`] | what goes wrong, where, and how often |
//! | [`world`] | one function in an account |
//! | [`mapping`] | Lambda: event source mappings and their sandboxes |
//! | [`ledger`] | what happened to every letter, and whether it was right |
//! | [`matrix`] | every call that redrives times every fault |
//! | [`replay`] | every call of a replay times every fault |
//! | [`soak`] | many letters under faults by chance |

mod door;
pub mod faults;
pub mod ledger;
pub mod letters;
pub mod mapping;
pub mod matrix;
pub mod replay;
pub mod soak;
pub mod world;

use fastrand::Rng;

/// Returns one of a list, each as often as its weight says.
fn weighed<T: Copy>(rng: &mut Rng, all: &[(T, usize)]) -> Option<T> {
    let mut rest = rng.usize(..all.iter().map(|(_, weight)| weight).sum::<usize>().max(1));
    let hit = |weight: usize| {
        let hit = rest < weight;
        rest = rest.saturating_sub(weight);
        hit
    };
    let mut hit = hit;
    all.iter().find(|(_, weight)| hit(*weight)).map(|(one, _)| *one)
}

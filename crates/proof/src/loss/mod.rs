//! Tests that no letter is lost, whatever fails. The function runs in an account with faults, and the laws
//! of the crate `laws` judge every letter. The account is `redrive-sim`'s, behind its loopback socket.
//!
//!
//! | module | contents |
//! |---|---|
//! | [`letters`] | letters of every kind, with checks of their arrival |
//! | [`faults`] | the faults: their kind, their place, and their frequency |
//! | [`world`] | one function in an account |
//! | [`mapping`] | Lambda: event source mappings and their sandboxes |
//! | [`matrix`] | every call that redrives times every fault |
//! | `stories` | scenarios of the matrix in which time passes |
//! | [`replay`] | every call of a replay times every fault |
//! | [`soak`] | many letters under random faults |

mod door;
pub mod faults;
pub mod letters;
pub mod mapping;
pub mod matrix;
pub mod replay;
pub mod soak;
mod stories;
pub mod world;

use fastrand::Rng;

/// Returns a random element of a list, with these weights.
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

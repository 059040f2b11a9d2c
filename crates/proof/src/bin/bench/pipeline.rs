//! The output of `examples/pipeline.rs`.

use crate::page::{FigureTable, thousands};

/// The policies, as the example names them.
const BUILT_IN: &str = "built_in_policy";
const TWENTY_RULES: &str = "twenty_rules";

/// The sizes of letters, bytes.
const SIZES: [(u32, &str); 3] = [(2_048, "2 KB"), (16_384, "16 KB"), (65_536, "64 KB")];

/// Returns the median rate of each size under each policy.
pub(crate) fn table(told: &str) -> FigureTable {
    let head = "| letters of | a second, built-in policy | a second, twenty rules |";
    let mut table = FigureTable::new("pipeline", head);
    for (size, name) in SIZES {
        let [built_in, twenty_rules] = [BUILT_IN, TWENTY_RULES]
            .map(|policy| thousands(rate(told, policy, size).expect("the median of each policy and size")));
        table.rows.push(format!("| {name} | {built_in} | {twenty_rules} |"));
    }
    table
}

/// Adds the aim for parsing and deciding, with the median of 2 KB letters.
pub(crate) fn aim(aims: &mut FigureTable, told: &str) {
    let rate = rate(told, BUILT_IN, 2_048).expect("the median of built_in_policy for letters of 2048 bytes");
    aims.aim(
        "300,000 letters a second and core at 2 KB, parsed and decided",
        thousands(rate),
        rate >= 300_000.0,
    );
}

/// Returns the median rate. The rates stand below the times, as fastest, slowest, median, mean.
fn rate(told: &str, policy: &str, size: u32) -> Option<f64> {
    let (_, lines) = told.split_once(policy)?;
    let (lines, _) = lines.split_once(TWENTY_RULES).unwrap_or((lines, ""));
    let mut lines = lines.lines();
    let size = format!(" {size} ");
    lines.find(|line| line.contains(&size))?;
    let rates = lines.next()?.split('│').filter_map(|field| field.trim().strip_suffix("item/s"));
    let (number, unit) = rates.into_iter().nth(2)?.split_once(' ')?;
    let unit = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, TWENTY_RULES, rate};

    const TOLD: &str = "
pipeline            fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ built_in_policy                │               │               │               │         │
│  ├─ 2048          4.918 ms      │ 8.19 ms       │ 5.298 ms      │ 5.421 ms      │ 100     │ 100
│  │                203.3 Kitem/s │ 122 Kitem/s   │ 188.7 Kitem/s │ 184.4 Kitem/s │         │
│  ├─ 16384         7.616 ms      │ 12.82 ms      │ 8.24 ms       │ 8.595 ms      │ 100     │ 100
│  │                131.2 Kitem/s │ 77.98 Kitem/s │ 121.3 Kitem/s │ 116.3 Kitem/s │         │
";

    #[test]
    fn the_median_rate_is_read() {
        assert_eq!(rate(TOLD, BUILT_IN, 2_048), Some(188_700.0));
        assert_eq!(rate(TOLD, BUILT_IN, 16_384), Some(121_300.0));
        assert_eq!(rate(&TOLD.replace("188.7 K", "1.887 M"), BUILT_IN, 2_048), Some(1_887_000.0));
        let others = "╰─ twenty_rules\n   ├─ 2048 │\n│ 1 Kitem/s │ 1 Kitem/s │ 2 Kitem/s │";
        let both = TOLD.replace("2048", "4096") + others;
        assert_eq!(rate(&both, BUILT_IN, 2_048), None);
        assert_eq!(rate(&both, TWENTY_RULES, 2_048), Some(2_000.0));
    }
}

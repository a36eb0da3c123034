//! Descriptions of common cron expressions.

/// Description of an expression, such as `Every day at 02:00`; `None` for an uncommon one.
pub fn in_words(cron: &str) -> Option<String> {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = match fields.as_slice() {
        ["@hourly"] => ["0", "*", "*", "*", "*"],
        ["@daily" | "@midnight"] => ["0", "0", "*", "*", "*"],
        ["@weekly"] => ["0", "0", "*", "*", "0"],
        ["@monthly"] => ["0", "0", "1", "*", "*"],
        ["@yearly" | "@annually"] => ["0", "0", "1", "1", "*"],
        ["*", "*", "*", "*", "*", "*"] => return Some("Every second".to_owned()),
        [step, "*", "*", "*", "*", "*"] => return every(step, "second", 59),
        ["0", rest @ ..] if rest.len() == 5 => <[&str; 5]>::try_from(rest).ok()?,
        _ => <[&str; 5]>::try_from(fields.as_slice()).ok()?,
    };
    match [minute, hour, day, month, weekday] {
        ["*", "*", "*", "*", "*"] => Some("Every minute".to_owned()),
        [step, "*", "*", "*", "*"] if step.starts_with("*/") => every(step, "minute", 59),
        [minute, "*", "*", "*", "*"] => Some(format!("Every hour at :{:02}", number(minute, 59)?)),
        ["0", step, "*", "*", "*"] if step.starts_with("*/") => every(step, "hour", 23),
        [minute, hour, day, month, weekday] => {
            let time = format!("{:02}:{:02}", number(hour, 23)?, number(minute, 59)?);
            match (day, month, weekday) {
                ("*", "*", "*") => Some(format!("Every day at {time}")),
                ("*", "*", weekday) => Some(format!("{} at {time}", weekdays(weekday)?)),
                (day, "*", "*") => Some(format!("On day {} of each month at {time}", number(day, 31)?)),
                (day, month, "*") => {
                    let month = MONTHS.get(number(month, 12)?.checked_sub(1)?)?;
                    Some(format!("On {month} {} at {time}", number(day, 31)?))
                }
                _ => None,
            }
        }
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 8] =
    ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"];

/// `*/15` as `Every 15 minutes`; `None` for steps of different lengths, as `*/45` has.
fn every(step: &str, unit: &str, most: usize) -> Option<String> {
    match number(step.strip_prefix("*/")?, most)? {
        0 => None,
        1 => Some(format!("Every {unit}")),
        n if !(most + 1).is_multiple_of(n) => None,
        n => Some(format!("Every {n} {unit}s")),
    }
}

fn number(field: &str, most: usize) -> Option<usize> {
    let digits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    field.parse().ok().filter(|&n| digits && n <= most)
}

fn weekdays(field: &str) -> Option<String> {
    match field.to_ascii_lowercase().as_str() {
        "1-5" | "mon-fri" => Some("Weekdays".to_owned()),
        "0,6" | "6,0" | "6,7" | "sat,sun" | "sun,sat" => Some("Weekends".to_owned()),
        list => {
            let names: Option<Vec<&str>> = list.split(',').map(weekday).collect();
            let names = names?;
            let (last, first) = names.split_last()?;
            Some(if first.is_empty() { (*last).to_owned() } else { format!("{} and {last}", first.join(", ")) })
        }
    }
}

fn weekday(field: &str) -> Option<&'static str> {
    let named = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].iter().position(|name| *name == field);
    DAYS.get(named.or_else(|| number(field, 7))?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_expressions_have_words_and_others_have_none() {
        for (cron, words) in [
            ("0 2 * * *", "Every day at 02:00"),
            ("@daily", "Every day at 00:00"),
            ("*/15 * * * *", "Every 15 minutes"),
            ("*/1 * * * *", "Every minute"),
            ("* * * * * *", "Every second"),
            ("*/10 * * * * *", "Every 10 seconds"),
            ("0 30 4 * * 0", "Sundays at 04:30"),
            ("5 * * * *", "Every hour at :05"),
            ("0 */6 * * *", "Every 6 hours"),
            ("0 18 * * 1-5", "Weekdays at 18:00"),
            ("0 18 * * MON,wed,5", "Mondays, Wednesdays and Fridays at 18:00"),
            ("58 13 22 * *", "On day 22 of each month at 13:58"),
            ("0 9 1 4 *", "On April 1 at 09:00"),
        ] {
            assert_eq!(in_words(cron).as_deref(), Some(words), "{cron}");
        }
        for cron in [
            "",
            "* *",
            "0 2 1 * 1",
            "0 2 L * *",
            "61 * * * *",
            "0 2 * * mon#2",
            "*/0 * * * *",
            "0 2 * 13 *",
            "*/45 * * * *",
            "0 */5 * * *",
        ] {
            assert_eq!(in_words(cron), None, "{cron}");
        }
    }
}

import type { ReviewerBacktest } from "../../api/Reviewers.ts"
import type {
  BoundedShare,
  Reviewer,
  ReviewerBand,
  ReviewerFigures,
  ReviewerStopReason
} from "../../domain/approvals/Reviewer.ts"
import { formatTimestamp } from "../../domain/Time.ts"
import { number, printable } from "../rules/printTest.ts"

const stopReasons: Readonly<Record<ReviewerStopReason, string>> = {
  by_person: "a person stopped it",
  bound_lost: "a bound no longer held",
  fallen: "its newest approvals were rejected too often",
  reversed: "a person marked a decision as wrong",
  provider_failed: "its provider failed several times in a row",
  release_changed: "its task got another release"
}

/** A reviewer model on one line, and its limits on the next. */
export const describeReviewer = (reviewer: Reviewer): string => {
  const { daily_calls, daily_tokens, name, state, stopped_reason, task_id, tools, used } = reviewer
  const stopped = stopped_reason === null ? "" : `: ${stopReasons[stopped_reason]}`
  return [
    `${task_id} ${printable(name)} ${state}${stopped}`,
    `    tools ${tools.map(printable).join(", ")}; today ${number(used.calls)} of ${number(daily_calls)} calls, ` +
      `${number(used.tokens)} of ${number(daily_tokens)} tokens${used.used_up ? " (used up)" : ""}`
  ].join("\n")
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`

const describeBand = (band: ReviewerBand | null, hasAmount: boolean): string => {
  if (!hasAmount) return " (without an amount)"
  if (band === null) return ""
  const { above, up_to } = band
  const low = above === null ? "" : ` above ${number(above)}`
  return `${low}${up_to === null ? "" : ` up to ${number(up_to)}`}`
}

const describeShare = ({ count, of }: typeof BoundedShare.Type): string => `${number(count)} of ${number(of)}`

/** The figures of each tool and band in words. */
export const describeFigures = (figures: ReadonlyArray<ReviewerFigures>): ReadonlyArray<string> =>
  figures.length === 0
    ? ["No answer was compared with a decision of a person yet."]
    : figures.flatMap((one) => {
        const { agreement, false_approvals, false_rejections, missing, unsure } = one
        return [
          `${printable(one.tool)}${describeBand(one.band, one.has_amount)}: agreed with people on ${describeShare(agreement)} ` +
            `(at least ${percent(agreement.bound)})`,
          `    false approvals ${describeShare(false_approvals)} (at most ${percent(false_approvals.bound)}), ` +
            `false rejections ${describeShare(false_rejections)} (at most ${percent(false_rejections.bound)}), unsure ${number(unsure)}`,
          !one.has_amount
            ? "    never decides: the amount is missing"
            : missing === 0
              ? "    the bounds hold"
              : missing === null
                ? "    the bounds are out of reach: more than 100,000 decisions are missing"
                : `    ${number(missing)} more agreed approvals are missing for the bounds`
        ]
      })

/** The result of a backtest in words. */
export const describeBacktest = (result: ReviewerBacktest): string =>
  [
    `Since ${formatTimestamp(result.since)}: ${number(result.compared)} compared answers${result.truncated ? " (only the oldest)" : ""}`,
    `    would have decided ${number(result.decided)}: ${number(result.agreed)} as people did, ` +
      `${number(result.false_approvals)} false approvals, ${number(result.false_rejections)} false rejections`,
    `    people would have decided ${number(result.compared - result.decided)}: ${number(result.not_earned)} before the bounds held, ` +
      `${number(result.sampled)} as the sample, ${number(result.unsure)} because it was unsure`
  ].join("\n")

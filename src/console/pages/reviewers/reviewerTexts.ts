/** Texts of the pages of reviewer models. */
import type { Tone } from "../../ui/Badge.tsx"
import type {
  Reviewer,
  ReviewerAnswer,
  ReviewerBand,
  ReviewerFigures
} from "../../../domain/approvals/Reviewer.ts"
import type { StandingFault } from "../../../domain/approvals/Reviewer/reviewerStanding.ts"

type Share = ReviewerFigures["agreement"]

const count = (value: number): string => value.toLocaleString("en")

const oneDecimal = (value: number): string => (value / 10).toLocaleString("en", { maximumFractionDigits: 1 })

/** A percentage with one decimal, rounded down: a bound that is too low is on the safe side. */
export const leastPercent = (share: number): string => `${oneDecimal(Math.floor(share * 1_000))} %`

/** The same, rounded up. */
export const greatestPercent = (share: number): string => `${oneDecimal(Math.ceil(share * 1_000))} %`

/** A setting in percent, as it was given. */
export const settingPercent = (share: number): string => `${Number((share * 100).toFixed(4))}`

/** `412 of 415`. */
export const shareText = ({ count: part, of }: Share): string =>
  of === 0 ? "none yet" : `${count(part)} of ${count(of)}`

/** A band of amounts: `up to 100`, `above 100, up to 1,000`, `above 1,000`. */
export const bandText = (band: ReviewerBand | null): string => {
  if (band === null) return "any"
  const { above, up_to } = band
  return [above === null ? [] : [`above ${count(above)}`], up_to === null ? [] : [`up to ${count(up_to)}`]]
    .flat()
    .join(", ")
}

/** The bands of a reviewer's amount, or of steps without one. */
export const bandOf = ({ band, has_amount }: Pick<ReviewerFigures, "band" | "has_amount">): string =>
  has_amount ? bandText(band) : "no amount"

const faultTexts: Record<StandingFault, string> = {
  agreement: "People agree too seldom.",
  false_approvals: "Too many approvals may be wrong.",
  fallen: "People rejected too many of its newest approvals."
}

/** What a reviewer may decide about a tool and band, and what is missing. */
export const standingOf = ({
  approve,
  has_amount,
  missing,
  reject
}: Pick<ReviewerFigures, "approve" | "has_amount" | "missing" | "reject">): {
  readonly tone: Tone
  readonly label: string
  readonly detail: string
} => {
  if (!has_amount)
    return { tone: "quiet", label: "Never", detail: "Its steps have no amount where it looks for one." }
  if (approve === null)
    return {
      tone: "good",
      label: reject === null ? "May decide" : "May approve",
      detail: reject === null ? "" : "People decide what it would reject."
    }
  const tone = reject === null ? "good" : approve === "fallen" ? "bad" : "wait"
  const label = reject === null ? "May reject" : "Not earned"
  const needed =
    missing === null
      ? "More than 100,000 agreed approvals are missing."
      : `At least ${count(missing)} more agreed approvals are missing.`
  return { tone, label, detail: `${faultTexts[approve]} ${needed}` }
}

/** Whether it may decide any steps. */
const hasEarned = (figures: ReadonlyArray<ReviewerFigures>): boolean =>
  figures.some(({ approve, has_amount, reject }) => has_amount && (approve === null || reject === null))

/** The state of a reviewer as a badge. `rules`: how many rules let it decide. */
export const stateOf = (
  { state, stopped_by, stopped_reason }: Pick<Reviewer, "state" | "stopped_by" | "stopped_reason">,
  rules: number,
  figures: ReadonlyArray<ReviewerFigures>
): readonly [tone: Tone, label: string] => {
  if (state === "stopped") {
    const isByPerson = stopped_by !== null || stopped_reason === "by_person"
    return isByPerson ? ["quiet", "Stopped"] : ["bad", "Lost the right"]
  }
  if (rules === 0) return ["note", "Only watches"]
  return hasEarned(figures) ? ["good", "Decides"] : ["wait", "Not earned yet"]
}

/** The decision of an answer, as a person would call it. */
export const answerTexts: Record<
  NonNullable<ReviewerAnswer["decision"]>,
  readonly [tone: Tone, label: string]
> = {
  approve: ["good", "Approve"],
  reject: ["bad", "Reject"],
  unsure: ["quiet", "Unsure"]
}

import type { ReviewerStopReason } from "../Reviewer.ts"

export type { ReviewerStopReason } from "../Reviewer.ts"

const texts: Record<ReviewerStopReason, string> = {
  by_person: "a person stopped it",
  bound_lost: "people no longer agree with it as often as its rule requires",
  fallen: "people rejected too many of its newest approvals",
  reversed: "a person marked one of its decisions as wrong",
  provider_failed: "its provider failed several times in a row",
  release_changed: "its task has another release, which is not measured yet"
}

/** Why a reviewer model was stopped, as a part of a sentence for people. */
export const describeStop = (reason: ReviewerStopReason): string => texts[reason]

import type { RuleEffect } from "../../domain/approvals/ApprovalRule.ts"
import {
  MAX_COUNTED_DIFFERENCES,
  type ShadowChange,
  type ShadowDifference
} from "../../domain/approvals/ShadowDifference.ts"
import { formatTimestamp } from "../../domain/Time.ts"
import { number, printable } from "./printTest.ts"

const effects: Readonly<Record<RuleEffect, string>> = {
  allow: "allowed",
  reject: "rejected",
  require_approval: "asked"
}

const count = (steps: number): string =>
  steps < MAX_COUNTED_DIFFERENCES ? number(steps) : `${number(steps)} or more`

/** Describes how many steps differ, by both effects. */
export const describeChanges = (revision: number, changes: ReadonlyArray<ShadowChange>): string =>
  [
    `shadow revision ${revision}: ${changes.length === 0 ? "no differences" : "differences"}`,
    ...changes.map(
      ({ live, shadow, steps }) =>
        `  ${effects[live]}, would be ${effects[shadow]}: ${count(steps)} ${steps === 1 ? "step" : "steps"}`
    )
  ].join("\n")

/** Describes a step on which the shadow rules differ, with a link to its approval or its session. */
export const describeDifference = (one: ShadowDifference, url: string): string => {
  const { approval_id, decision_source, live, outcome, shadow } = one
  const person =
    decision_source === "human"
      ? outcome === "allow"
        ? "; a person approved it"
        : "; a person rejected it"
      : ""
  const page = approval_id === null ? `sessions/${one.session_id}` : `approvals/${approval_id}`
  return [
    `${formatTimestamp(one.requested_at)} ${printable(one.tool)} (${printable(one.action_class)}) ` +
      `${effects[live.effect]}, would be ${effects[shadow.effect]}${person}`,
    `    live: ${printable(live.reason)}`,
    `    shadow: ${printable(shadow.reason)}`,
    `    ${url.replace(/\/+$/, "")}/console/${page}`
  ].join("\n")
}

import { nearestName } from "../nearestName.ts"
import { toSeenText } from "../lookAlikes.ts"
import { compileTextPattern } from "./CompiledRules/compileTextPattern.ts"
import type { ApprovalRule } from "./ApprovalRule.ts"

/** A rule that a tool seems to match and does not. */
export interface SimilarRule {
  readonly id: ApprovalRule["id"]
  /** Its place in the list, 1 for the first. */
  readonly number: number
  /** The tool as it reads if only its letters pretend, else the pattern of the rule. */
  readonly tool: string
  readonly kind: "look_alike" | "spelling"
}

type Pattern = Pick<ApprovalRule, "id" | "tool">

/**
 * Finds the rule that a reader takes for the one of a tool: the first that its name would match if look-alike letters were Latin. If no rule has
 * decided, also the rule with the nearest name. `decided`: the rule that decided.
 */
export const findSimilarRule = (
  rules: ReadonlyArray<Pattern>,
  tool: string,
  decided: Pattern["id"] | null
): SimilarRule | undefined => {
  const seen = toSeenText(tool)
  const pretended = rules.findIndex((rule) => rule.tool !== "*" && compileTextPattern(rule.tool)(seen))
  const rule = rules[pretended]
  if (seen !== tool && rule !== undefined && rule.id !== decided) {
    return { id: rule.id, number: pretended + 1, tool: seen, kind: "look_alike" }
  }
  if (decided !== null) return undefined
  // The part before a wildcard is compared with the same part of the name.
  const names = new Map(rules.map(({ tool: pattern }) => [pattern.replace(/[.*]+$/, ""), pattern]))
  names.delete("")
  const prefix = seen.replace(/[.][^.]*$/, "")
  const near = nearestName(seen, [...names.keys()]) ?? nearestName(prefix, [...names.keys()])
  const pattern = near === undefined ? undefined : names.get(near)
  const index = rules.findIndex((one) => one.tool === pattern)
  const found = rules[index]
  return found === undefined
    ? undefined
    : { id: found.id, number: index + 1, tool: found.tool, kind: "spelling" }
}

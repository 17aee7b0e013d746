import { type Document, isMap, isSeq, parseDocument, stringify, type YAMLMap } from "yaml"
import { NewApprovalRule } from "../../api/ApprovalRules.ts"
import { completeRule } from "../../api/completeRule.ts"
import { RULES_SCHEMA_FILE } from "../../api/RulesFile.ts"
import type { ApprovalRule } from "../../domain/approvals/ApprovalRule.ts"
import { defaultBudget, type RuleBudget } from "../../domain/approvals/RuleBudget.ts"
import { defaultRuleReviewer, type RuleReviewer } from "../../domain/approvals/RuleReviewer.ts"
import { defaultRule } from "../../domain/approvals/defaultRule.ts"
import type { RulesFormat } from "./rulesFile.ts"

/** Long texts stay on one line, so that a change of one word is a change of one line. */
const yamlOptions = { lineWidth: 0 }

/** The members of a rule, in the order in which they are written. */
const members = Object.keys(NewApprovalRule.fields)

const isEqual = (one: unknown, other: unknown): boolean => sortedJson(one) === sortedJson(other)

const sortedJson = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : inner
  )

/** A rule as a file has it: without the members that have their default value. */
export const writtenRule = (rule: NewApprovalRule): Readonly<Record<string, unknown>> => {
  const complete = completeRule(rule)
  const budgets = complete.budgets.map((budget) => withoutDefaults(budget, defaultBudget))
  const reviewer = complete.reviewer === null ? null : withoutDefaults(complete.reviewer, defaultRuleReviewer)
  const given: Readonly<Record<string, unknown>> = { id: rule.id, ...complete, budgets, reviewer }
  const defaults: Readonly<Record<string, unknown>> = defaultRule
  return Object.fromEntries(
    members.flatMap((name) =>
      given[name] === undefined || (name in defaults && isEqual(given[name], defaults[name]))
        ? []
        : [[name, given[name]]]
    )
  )
}

/** A part of a rule as a file has it: without the members that have their default value. */
const withoutDefaults = (
  part: RuleBudget | RuleReviewer,
  defaults: Readonly<Record<string, unknown>>
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(part).filter(([name, value]) => !(name in defaults) || !isEqual(value, defaults[name]))
  )

/** The content of a rule, whatever its id, for comparisons. */
const contentKey = (rule: NewApprovalRule): string => sortedJson({ ...writtenRule(rule), id: null })

/**
 * The rules of a file as they are sent: complete, because the service refuses a rule that leaves out a member of its stored version. A rule
 * without an id gets the id of a current rule with the same content, unless another rule has it.
 */
export const withKnownIds = (
  rules: ReadonlyArray<NewApprovalRule>,
  current: ReadonlyArray<ApprovalRule>
): ReadonlyArray<NewApprovalRule> => {
  const used = new Set(rules.map(({ id }) => id))
  const byContent = Map.groupBy(current, contentKey)
  return rules.map((rule) => {
    const complete = completeRule(rule)
    if (rule.id !== undefined) return { id: rule.id, ...complete }
    const same = byContent.get(contentKey(rule))?.find((one) => !used.has(one.id))
    if (same === undefined) return complete
    used.add(same.id)
    return { id: same.id, ...complete }
  })
}

/** Whether applying the rules would change nothing. */
export const isUnchanged = (
  rules: ReadonlyArray<NewApprovalRule>,
  current: ReadonlyArray<ApprovalRule>
): boolean => isEqual(withKnownIds(rules, current).map(writtenRule), current.map(writtenRule))

/** The rules as YAML, for a comparison by lines. */
export const rulesAsYaml = (rules: ReadonlyArray<NewApprovalRule>): string =>
  rules.length === 0 ? "" : stringify(rules.map(writtenRule), yamlOptions).trimEnd()

/** A new file. */
export const formatRules = (
  rules: ReadonlyArray<ApprovalRule>,
  format: RulesFormat,
  serviceUrl: string
): string => {
  const schema = `${serviceUrl.replace(/\/+$/, "")}/${RULES_SCHEMA_FILE}`
  const written = rules.map(writtenRule)
  return format === "json"
    ? `${JSON.stringify({ $schema: schema, rules: written }, null, 2)}\n`
    : `# yaml-language-server: $schema=${schema}\n${stringify({ rules: written }, yamlOptions)}`
}

/**
 * An existing YAML file with the current rules. Rules that it has, by id or by content, keep their comments and their notation; undefined if
 * it has no list of rules.
 */
export const updateYaml = (text: string, current: ReadonlyArray<ApprovalRule>): string | undefined => {
  const document = parseDocument(text)
  const list = document.get("rules")
  if (document.errors.length > 0 || !isSeq(list)) return undefined
  const items = list.items.filter((item) => isMap(item))
  const itemsById = Map.groupBy(items, (item) => item.get("id"))
  const itemsByContent = Map.groupBy(
    items.filter((item) => !item.has("id")),
    (item) => completeKey(contentOf(item))
  )
  const used = new Set<YAMLMap>()
  const take = (found: ReadonlyArray<YAMLMap> = []): YAMLMap | undefined => {
    const item = found.find((one) => !used.has(one))
    if (item !== undefined) used.add(item)
    return item
  }
  // First by id: a rule that is only equal to another must not take its place.
  const byId = new Map(current.map((rule) => [rule, take(itemsById.get(rule.id))]))
  list.items = current.map((rule) => {
    const item = byId.get(rule) ?? take(itemsByContent.get(completeKey(withoutId(rule))))
    if (item === undefined) return document.createNode(writtenRule(rule))
    updateItem(document, item, rule)
    return item
  })
  list.flow = false
  return document.toString(yamlOptions)
}

const contentOf = (item: YAMLMap): Readonly<Record<string, unknown>> => {
  const value: unknown = item.toJSON()
  return typeof value === "object" && value !== null ? { ...value } : {}
}

/** The content of a rule with its defaults, for comparisons. */
const completeKey = (content: Readonly<Record<string, unknown>>): string =>
  sortedJson({ ...defaultRule, ...withParts(content) })

/** The content with its budgets as a complete list and a complete reviewer, however the file notes them. */
const withParts = ({
  budget,
  budgets = budget === undefined ? undefined : [budget],
  reviewer,
  ...content
}: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> => ({
  ...content,
  ...(reviewer === undefined
    ? {}
    : {
        reviewer:
          typeof reviewer === "object" && reviewer !== null
            ? { ...defaultRuleReviewer, ...reviewer }
            : reviewer
      }),
  ...(Array.isArray(budgets)
    ? {
        budgets: budgets.map((one: unknown) => (typeof one === "object" ? { ...defaultBudget, ...one } : one))
      }
    : {})
})

const withoutId = ({ id: _, ...rule }: ApprovalRule) => rule

/** Changes the members of an item that differ from the rule's. */
const updateItem = (document: Document, item: YAMLMap, rule: ApprovalRule): void => {
  const content = contentOf(item)
  const noted = withParts(content)
  const full: Readonly<Record<string, unknown>> = rule
  const written = writtenRule(rule)
  for (const name of Object.keys(noted)) {
    if (!(name in full) || isEqual(noted[name], full[name])) continue
    // The short notation of one budget.
    if (name === "budgets") item.delete("budget")
    if (name in written) item.set(name, document.createNode(written[name]))
    else item.delete(name)
  }
  for (const [name, value] of Object.entries(written))
    if (name !== "id" && !(name in noted)) item.set(name, document.createNode(value))
}

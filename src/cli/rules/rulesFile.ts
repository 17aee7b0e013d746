import { JsonPointer, Result, Schema } from "effect"
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, Scalar, visit } from "yaml"
import { RulesFile } from "../../api/RulesFile.ts"
import type { NewApprovalRule } from "../../api/ApprovalRules.ts"
import { describeIssue } from "../../domain/describeIssue.ts"
import { findSyntaxError } from "../../domain/json/findSyntaxError.ts"
import { scan } from "../../domain/json/StrictJson.ts"

/** The format of a file, by its name. */
export type RulesFormat = "yaml" | "json"

export const formatOf = (file: string): RulesFormat | undefined =>
  /\.ya?ml$/i.test(file) ? "yaml" : /\.json$/i.test(file) ? "json" : undefined

/** The rules of a file. */
export interface ParsedRules {
  readonly rules: ReadonlyArray<NewApprovalRule>
  /** Line and column of the value at a pointer such as `#/rules/3/tool`: `12:5`. */
  readonly locate: (pointer: string) => string
}

/** A fault of a file, with its place: `12:5: #/rules/3/tool: Expected …`. */
export type FileFault = string

/** Most faults that are reported. */
const MAX_FAULTS = 20

/**
 * Unknown members are faults, as in the API: a misspelled condition would otherwise make a rule match every step.
 */
const decodeRulesFile = Schema.decodeUnknownResult(Schema.toCodecJson(RulesFile), {
  onExcessProperty: "error",
  errors: "all"
})

/** Reads a file. JSON is read strictly; of YAML 1.2, what JSON can express. */
export const parseRulesFile = (
  text: string,
  format: RulesFormat
): Result.Result<ParsedRules, ReadonlyArray<FileFault>> => {
  // The parser of YAML accepts much more than JSON.
  if (format === "json") {
    const scanned = scan(text)
    if (Result.isFailure(scanned))
      return Result.fail([`${scanned.failure.pointer}: ${scanned.failure.detail}`])
    const fault = findSyntaxError(text)
    if (fault !== undefined) return Result.fail([`${fault.line}:${fault.column}: Not JSON: ${fault.detail}`])
  }
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, intAsBigInt: true, prettyErrors: false })
  const at = (offset: number): string => {
    const { col, line } = lines.linePos(offset)
    return `${line}:${col}`
  }
  const [invalid] = document.errors
  if (invalid !== undefined) return Result.fail([`${at(invalid.pos[0])}: ${invalid.message}`])

  const numbers: Array<FileFault> = []
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === "bigint") node.value = Number(node.value)
      if (typeof node.value !== "number") return
      if (!Number.isFinite(node.value) || (Number.isInteger(node.value) && !Number.isSafeInteger(node.value)))
        numbers.push(`${at(node.range?.[0] ?? 0)}: Expected a number that JSON can hold exactly.`)
    }
  })
  if (numbers.length > 0) return Result.fail(numbers.slice(0, MAX_FAULTS))

  /** The position of a value, or of the nearest one around it. */
  const locate = (path: ReadonlyArray<string>): string => {
    let node: unknown = document.contents
    let offset = 0
    for (const segment of path) {
      if (isAlias(node)) node = node.resolve(document)
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === segment)
        if (pair === undefined) break
        if (pair.key instanceof Scalar) offset = pair.key.range?.[0] ?? offset
        node = pair.value
      } else if (isSeq(node)) {
        const item = node.items[Number(segment)]
        if (!isMap(item) && !isScalar(item) && !isSeq(item) && !isAlias(item)) break
        offset = item.range?.[0] ?? offset
        node = item
      } else break
    }
    return at(offset)
  }

  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: 100 })
  } catch {
    return Result.fail(["1:1: Too many aliases."])
  }
  return Result.mapBoth(decodeRulesFile(value), {
    onSuccess: ({ rules }) => ({
      rules,
      locate: (pointer) => locate(segmentsOf(pointer))
    }),
    onFailure: ({ issue }) =>
      describeIssue(issue).map(
        ({ detail, pointer }) => `${locate(segmentsOf(pointer))}: ${pointer}: ${detail}`
      )
  })
}

/** The segments of a pointer of a problem, such as `#/rules/3/tool`. */
const segmentsOf = (pointer: string): ReadonlyArray<string> =>
  pointer.replace(/^#/, "").split("/").slice(1).map(JsonPointer.unescapeToken)

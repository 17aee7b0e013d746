/** The faults of a value that does not match a schema, in the words of the API. */
import { SchemaAST, type SchemaIssue } from "effect"
import { nearestName } from "./nearestName.ts"
import { formatPointer, type SchemaFault } from "./tasks/CompiledSchema/SchemaFault.ts"

/** The most faults that are described. */
const MAX_FAULTS = 20

/** Longer lists of names, such as the list of all scopes, are still listed as values, but not as members. */
const MAX_LISTED = 20

type Path = ReadonlyArray<string>

/** The kind of the value's parts. */
type Noun = "member" | "parameter"

/** Describes why a value does not match: one fault for each place, 20 at most, and never a value. */
export const describeIssue = (
  issue: SchemaIssue.Issue,
  noun: Noun = "member"
): ReadonlyArray<SchemaFault> => {
  const faults = new Map<string, SchemaFault>()
  for (const [path, detail] of faultsIn(issue, [], noun)) {
    const pointer = formatPointer("#", path)
    if (!faults.has(pointer)) faults.set(pointer, { pointer, detail: detail() })
    if (faults.size === MAX_FAULTS) break
  }
  return [...faults.values()]
}

/** The first fault as the rest of a sentence, with its end: `#/score: expected 1, 0 or -1.` */
export const describeFirst = ([first]: ReadonlyArray<SchemaFault>): string => {
  if (first === undefined) return "it is not valid."
  const { detail, pointer } = first
  const place = pointer === "#" ? "" : `${pointer}: `
  return `${place}${detail.charAt(0).toLowerCase()}${detail.slice(1)}${/[.?]$/.test(detail) ? "" : "."}`
}

/** A place and its fault, which is computed only if it is described: a body can have thousands of unknown members. */
type Fault = readonly [path: Path, detail: () => string]

/** `message`: of a check around the issue, whose own is less precise. */
function* faultsIn(issue: SchemaIssue.Issue, path: Path, noun: Noun, message?: string): Generator<Fault> {
  switch (issue._tag) {
    case "Filter":
      return yield* faultsIn(issue.issue, path, noun, message ?? messageOfCheck(issue))
    case "Encoding":
      return yield* faultsIn(issue.issue, path, noun, message ?? messageOfChecks(issue.ast))
    case "Pointer": {
      return yield* faultsIn(issue.issue, [...path, ...issue.path.map(String)], noun, message)
    }
    case "Composite": {
      const items = SchemaAST.isArrays(issue.ast) ? issue.ast.elements.length : 0
      for (const part of issue.issues) {
        const isMissingItem = items > 0 && part._tag === "Pointer" && part.issue._tag === "MissingKey"
        if (isMissingItem) yield [path, () => `Expected at least ${items} ${items === 1 ? "item" : "items"}`]
        else yield* faultsIn(part, path, noun, message)
      }
      return
    }
    case "AnyOf": {
      const members = issue.issues.map((part) => [...faultsIn(part, path, noun, message)])
      const [nearest, ...others] = nearestOf(members, path)
      if (nearest === undefined) break
      if (others.length === 0) return yield* nearest
      // Equally near: what all of them refuse, and what each would be.
      const elsewhere = others.map((faults) => new Set(faults.map(([place]) => formatPointer("#", place))))
      yield* nearest.filter(([place]) => elsewhere.every((places) => places.has(formatPointer("#", place))))
      break
    }
    default:
  }
  yield [path, () => message ?? describe(issue, path.at(-1) ?? "", noun)]
}

/** The expectation of the checks of a converted value, such as a number of a query: more precise than the expectation of its text. */
const messageOfChecks = ({ checks }: SchemaAST.AST): string | undefined => {
  const { expected, message } = checks?.at(-1)?.annotations ?? {}
  return typeof message === "string"
    ? message
    : typeof expected === "string"
      ? `Expected ${inOurWords(expected)}`
      : undefined
}

type Faults = ReadonlyArray<Fault>

/** The members of a union with the fewest faults: of the type of the value, if there are any. */
const nearestOf = (members: ReadonlyArray<Faults>, path: Path): ReadonlyArray<Faults> => {
  const inside = members.filter((faults) => faults.some(([place]) => place.length > path.length))
  const candidates = inside.length === 0 ? members : inside
  const fewest = Math.min(...candidates.map(({ length }) => length))
  return candidates.filter(({ length }) => length === fewest)
}

const messageOfCheck = ({ filter, issue }: SchemaIssue.Filter): string | undefined => {
  const { message } = filter.annotations ?? {}
  if (typeof message === "string") return message
  if (issue._tag !== "InvalidValue") return undefined
  if (issue.annotations?.message !== undefined) return undefined
  const expected = issue.annotations?.["expected"] ?? filter.annotations?.expected
  return typeof expected === "string" ? `Expected ${inOurWords(expected)}` : undefined
}

/** The library's phrases. */
const inOurWords = (expected: string): string =>
  expected
    .replace(/^a value with a length of/, "a length of")
    .replace(/^a string representing a finite number$/, "a number")

const describe = (issue: SchemaIssue.Issue, name: string, noun: Noun): string => {
  switch (issue._tag) {
    case "MissingKey":
      return "Is missing"
    case "UnexpectedKey":
      return describeUnknown(name, issue.ast, noun)
    case "InvalidValue": {
      const { expected, message } = issue.annotations ?? {}
      if (typeof message === "string") return message
      return `Expected ${typeof expected === "string" ? inOurWords(expected) : "another value"}`
    }
    case "InvalidType":
    case "AnyOf":
      return `Expected ${nounOf(issue.ast)}`
    default:
      return "Expected another value"
  }
}

const describeUnknown = (name: string, ast: SchemaAST.AST, noun: Noun): string => {
  if (!SchemaAST.isObjects(ast)) return `Is not a ${noun}`
  const [index] = ast.indexSignatures
  if (index !== undefined) return messageOfChecks(index.parameter) ?? `Is not a ${noun}`
  const names = ast.propertySignatures.map((property) => String(property.name))
  const nearest = nearestName(name, names)
  if (nearest !== undefined) return `Is not a ${noun}; did you mean ${nearest}?`
  return names.length > 0 && names.length <= MAX_LISTED
    ? `Is not a ${noun}; the ${noun}s are ${enumerate(names, "and")}`
    : `Is not a ${noun}`
}

const enumerate = (texts: ReadonlyArray<string>, conjunction: string): string =>
  texts.length < 2 ? texts.join() : `${texts.slice(0, -1).join(", ")} ${conjunction} ${texts.at(-1)}`

/** The values that a schema accepts, on the wire. */
const nounOf = (schema: SchemaAST.AST): string => {
  const ast = SchemaAST.toEncoded(schema)
  switch (ast._tag) {
    case "Null":
      return "null"
    case "String":
    case "TemplateLiteral":
      return "a string"
    case "Number":
      return "a number"
    case "Boolean":
      return "true or false"
    case "Literal":
      return JSON.stringify(ast.literal)
    case "Arrays":
      return "an array"
    case "Objects": {
      const required = ast.propertySignatures.filter(({ type }) => !SchemaAST.isOptional(type))
      return required.length === 0
        ? "an object"
        : `an object with ${enumerate(
            required.map(({ name }) => String(name)),
            "and"
          )}`
    }
    case "Union":
      return nounOfUnion(ast.types)
    case "Suspend":
      return nounOf(ast.thunk())
    case "Declaration": {
      const { expected } = ast.annotations ?? {}
      return typeof expected === "string" ? `a ${expected}` : "another value"
    }
    default:
      return "another value"
  }
}

/** Objects that a member tells apart, such as `kind` or `op`, are named by its values. */
const nounOfUnion = (types: ReadonlyArray<SchemaAST.AST>): string => {
  const objects = types.map(SchemaAST.toEncoded).filter(SchemaAST.isObjects)
  const literals = objects.map((object) =>
    object.propertySignatures.flatMap(({ name, type }) =>
      SchemaAST.isLiteral(type) ? [[name, type] as const] : []
    )
  )
  const [key] =
    literals[0]?.find(([name]) => literals.every((others) => others.some(([other]) => other === name))) ?? []
  const kinds = literals.flatMap((all) =>
    all.filter(([name]) => name === key).map(([, type]) => nounOf(type))
  )
  const nouns = types
    .filter((type) => !SchemaAST.isVoid(type))
    .filter((type) => key === undefined || !SchemaAST.isObjects(SchemaAST.toEncoded(type)))
    .map(nounOf)
  const told = key === undefined ? [] : [`an object whose ${String(key)} is ${enumerate(kinds, "or")}`]
  return enumerate([...new Set([...told, ...nouns])], "or")
}

/** Generates `Operations.ts`: an interface per schema and per group of operations, with the texts of the API reference. */
import { type Group, groups, type Operation, PARTS, problemKinds, sessionEvent } from "./contract.ts"
import type { Field, Shape } from "./shape.ts"

/** Whether a value is sent or received: the types of sent values are wider. */
type Direction = "input" | "output"

const pascal = (name: string): string =>
  name.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Declarations by name, in the order of their first use. */
const declarations = new Map<string, string>()

/** Longest line of a comment, without its indentation. */
const WIDTH = 100

const wrap = (line: string): ReadonlyArray<string> => {
  const lines = [""]
  for (const word of line.split(" ")) {
    const last = lines.at(-1) ?? ""
    if (last !== "" && last.length + word.length >= WIDTH)
      lines.push(line.startsWith("- ") ? `  ${word}` : word)
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`
  }
  return lines
}

const comment = (...paragraphs: ReadonlyArray<string>): string => {
  const text = paragraphs.filter((paragraph) => paragraph !== "").join("\n\n")
  if (text === "") throw new Error("Every member of the client needs a description")
  const lines = text.replaceAll("*/", "*\\/").split("\n").flatMap(wrap)
  return lines.length === 1
    ? `/** ${lines.join("")} */`
    : ["/**", ...lines.map((line) => ` * ${line}`.trimEnd()), " */"].join("\n")
}

/** The body of a type: its members on lines of their own, because tsc drops a comment that follows a brace. */
const block = (members: string): string => `{\n${members.replaceAll(/^(?=.)/gm, "  ")}\n}`

const member = ({ description, isOptional, name, shape }: Field, direction: Direction): string => {
  // A caller with `exactOptionalPropertyTypes` may pass a value that is possibly undefined, too.
  const orUndefined = isOptional && direction === "input" && shape.kind !== "json" ? " | undefined" : ""
  const key = /^\w+$/.test(name) ? name : JSON.stringify(name)
  return `${comment(description)}\nreadonly ${key}${isOptional ? "?" : ""}: ${typeOf(shape, direction)}${orUndefined}`
}

const members = (fields: ReadonlyArray<Field>, direction: Direction): string =>
  fields.map((field) => member(field, direction)).join("\n")

/** Declares a named schema once. Fails if one name would stand for two types. */
const declare = (name: string, description: string, type: string, isInterface: boolean): string => {
  const text = isInterface
    ? `${comment(description)}\nexport interface ${name} ${type}`
    : `${comment(description)}\nexport type ${name} = ${type}`
  const known = declarations.get(name)
  if (known !== undefined && known !== text) throw new Error(`${name} differs between requests and responses`)
  declarations.set(name, text)
  return name
}

const typeOf = (shape: Shape, direction: Direction): string => {
  switch (shape.kind) {
    case "string":
    case "redacted":
      return "string"
    case "number":
    case "boolean":
    case "null":
      return shape.kind
    case "time":
      return direction === "input" ? "Date | string" : "Date"
    case "json":
      return "unknown"
    case "object":
      return "object"
    case "literals":
      return shape.values.map((value) => JSON.stringify(value)).join(" | ")
    case "array": {
      const item = typeOf(shape.item, direction)
      return shape.isNonEmpty ? `readonly [${item}, ...ReadonlyArray<${item}>]` : `ReadonlyArray<${item}>`
    }
    case "record":
      return `Readonly<Record<string, ${typeOf(shape.value, direction)}>>`
    case "struct": {
      const body = block(members(shape.fields, direction))
      return shape.name === undefined ? body : declare(shape.name, shape.description, body, true)
    }
    case "union": {
      // An open enumeration: `string & {}` keeps the known values in completions.
      const isOpen = shape.members.some(({ kind }) => kind === "literals")
      const types = shape.members.map((one) =>
        isOpen && one.kind === "string" ? "(string & {})" : typeOf(one, direction)
      )
      const body = types.join(" | ")
      return shape.name === undefined ? body : declare(shape.name, shape.description, body, false)
    }
  }
}

/** The type of a page of a list, which has no name in the contract: that of its items and `Page`. */
const pageName = (shape: Shape): string | undefined => {
  if (shape.kind !== "struct" || shape.name !== undefined) return undefined
  for (const { shape: list } of shape.fields) {
    if (list.kind === "array" && list.item.kind === "struct") return `${list.item.name ?? ""}Page`
  }
  return undefined
}

const resultOf = ({ items, success }: Operation): string => {
  if (!("shape" in success)) return "CallPromise<void>"
  const name = pageName(success.shape)
  const { shape } = success
  const type =
    name === undefined || shape.kind !== "struct"
      ? typeOf(shape, "output")
      : declare(name, shape.description, block(members(shape.fields, "output")), true)
  if (success.kind === "lines") return `CallPromise<AsyncIterable<${type}>>`
  const list = shape.kind === "struct" ? shape.fields.find(({ name }) => name === items)?.shape : undefined
  return list?.kind === "array" ? `Pages<${type}, ${typeOf(list.item, "output")}>` : `CallPromise<${type}>`
}

const PART_DESCRIPTIONS = {
  params: "The variables of the path.",
  query: "The query.",
  headers: "The headers.",
  payload: "The request body."
}

const isRequired = (shape: Shape): boolean =>
  shape.kind !== "struct" || shape.fields.some(({ isOptional }) => !isOptional)

/** Whether the only member is an `id`. */
const isId = (params: Shape | undefined): boolean =>
  params?.kind === "struct" && params.fields.length === 1 && params.fields[0]?.name === "id"

/** The input of an operation, as an interface; undefined if it takes none. */
const inputOf = (
  operation: Operation
): { readonly name: string; readonly isRequired: boolean; readonly isIdEnough: boolean } | undefined => {
  const fields = PARTS.flatMap((part): ReadonlyArray<Field> => {
    const shape = operation.parts[part]
    if (shape === undefined) return []
    const isOptional = !isRequired(shape) || (part === "payload" && operation.isPayloadOptional)
    const about = shape.kind === "struct" || shape.kind === "union" ? shape.description : ""
    const description = [PART_DESCRIPTIONS[part], part === "payload" ? about : ""].join(" ").trim()
    return [{ name: part, isOptional, description, shape }]
  })
  if (fields.length === 0) return undefined
  const name = declare(
    `${pascal(operation.id.charAt(0).toUpperCase() + operation.id.slice(1))}Input`,
    `The input of \`${operation.group}.${operation.name}\`.`,
    block(members(fields, "input")),
    true
  )
  const [required, ...others] = fields.filter(({ isOptional }) => !isOptional)
  return {
    name,
    isRequired: required !== undefined,
    // Without a body an update would change nothing.
    isIdEnough:
      others.length === 0 &&
      isId(required?.shape) &&
      (operation.parts.payload === undefined || operation.isPayloadOptional)
  }
}

const methodOf = (operation: Operation): string => {
  const input = inputOf(operation)
  const result = resultOf(operation)
  const parameters =
    input === undefined
      ? "input?: {}, options?: CallOptions"
      : `input${input.isRequired ? "" : "?"}: ${input.name}${input.isIdEnough ? " | string" : ""}, options?: CallOptions`
  const problems =
    operation.codes.length === 0
      ? ""
      : `@throws ${operation.codes.join(", ")}, or a problem of any operation.`
  return [
    comment(`${operation.summary}.`, operation.description, problems),
    `readonly ${operation.name}: (${parameters}) => ${result}`
  ].join("\n")
}

const groupInterface = ({ description, name, operations }: Group): string => {
  // `countersign.stream` follows a session, across reconnects.
  const methods = operations.filter(({ success }) => success.kind !== "events").map(methodOf)
  return `${comment(description)}\nexport interface ${pascal(name)}Operations ${block(methods.join("\n"))}`
}

const problems = (): string => {
  const interfaces = problemKinds.map(({ code, description, fields, name, status }) => {
    const own = [
      `/** Always \`${code}\`. */\nreadonly code: "${code}"`,
      `/** Always ${status}. */\nreadonly status: ${status}`,
      ...fields.map((field) => member(field, "output"))
    ]
    return `${comment(description)}\nexport interface ${name}Problem extends ServiceProblem ${block(own.join("\n"))}`
  })
  return [
    ...interfaces,
    `${comment("A problem that the service answered with. `code` tells which.")}\nexport type AnyServiceProblem = ${problemKinds.map(({ name }) => `${name}Problem`).join(" | ")}`
  ].join("\n\n")
}

export const typesModule = (): string => {
  const methods = groups.map(groupInterface)
  const problemTypes = problems()
  typeOf(sessionEvent, "output")
  const groupMembers = groups.map(
    ({ description, name }) => `${comment(description)}\nreadonly ${name}: ${pascal(name)}Operations`
  )
  return [
    `// Generated by scripts/generate.ts from the contract. Do not edit.
import type { CallOptions } from "../CallOptions.ts"
import type { CallPromise, Pages } from "../CallPromise.ts"
import type { ServiceProblem } from "../Problem.ts"`,
    `${comment("The operations of the service, by group.")}\nexport interface Operations ${block(groupMembers.join("\n"))}`,
    ...methods,
    ...declarations.values(),
    problemTypes,
    ""
  ].join("\n\n")
}

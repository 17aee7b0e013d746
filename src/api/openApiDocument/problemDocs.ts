/** Documents problems: adds their descriptions and required members, which the generator leaves out. */
import { Schema, SchemaAST } from "effect"
import * as ApprovalProblems from "../ApprovalProblems.ts"
import { problemExampleFields } from "../examples.ts"
import * as Problems from "../Problems.ts"
import { constantOf, list, mapValues, type Node, record, SCHEMAS, without } from "./node.ts"
import { headersOf } from "./responseHeaders.ts"

/** The response of operations for which this is the only problem with this status. */
export const problemResponse = (name: string, schema: unknown): Node => ({
  description: problemSentence(schema),
  content: {
    "application/problem+json": {
      schema: { $ref: SCHEMAS + name },
      example: problemExample(name, record(schema))
    }
  },
  headers: headersOf(String(constantOf(schema, "status")), [schema])
})

/** A problem in one line: its code and its description. */
export const problemSentence = (schema: unknown): string =>
  `\`${String(codeOf(schema))}\`: ${String(record(schema)["description"])}`

export const problemExample = (name: string, schema: Node): Node => ({
  type: constantOf(schema, "type"),
  title: constantOf(schema, "title"),
  status: constantOf(schema, "status"),
  detail: schema["description"],
  code: codeOf(schema),
  request_id: "req_019abf51c3a27d4e8b90a1b2c3d4e515",
  ...problemExampleFields[name]
})

/** The members that RFC 9457 gives every problem. The library declares them, so their descriptions are here. */
const problemMembers: Readonly<Record<string, string>> = {
  type: "URN of the kind of problem; ends with its `code`.",
  title: "The kind of problem, in a few words. The same for every problem of this `code`.",
  status: "The HTTP status.",
  detail: "What happened and what to do, for people. Do not parse it."
}

/**
 * The descriptions of problems by code, from their classes. The generator drops them, but keeps the descriptions of
 * other schemas.
 */
const problemDescriptions: ReadonlyMap<string | undefined, string | undefined> = new Map(
  Object.values({ ...Problems, ...ApprovalProblems })
    .filter(Schema.isSchema)
    .map(({ ast }) => [SchemaAST.resolveIdentifier(ast), SchemaAST.resolveDescription(ast)])
)

/** Completes the generated schema of a problem. Every problem that is sent has all members of RFC 9457 but `instance`. */
export const describeProblem = (schema: Node): Node => ({
  ...schema,
  description: problemDescriptions.get(codeOf(schema)),
  properties: mapValues(without(record(schema["properties"]), "instance"), (property, name) => {
    const description = problemMembers[name]
    if (description === undefined) return property
    // With enums here, generated clients would get three extra types for each problem. The enum of `code` suffices to
    // discriminate problems.
    const { enum: _, ...member } = record(property)
    const value = constantOf(schema, name)
    return { ...member, description, ...(value === undefined ? {} : { const: value }) }
  }),
  required: [
    ...new Set([...Object.keys(problemMembers), "request_id", ...list(schema["required"]).map(String)])
  ]
})

/** The code of a problem schema; undefined for other schemas. */
export const codeOf = (schema: unknown): string | undefined => {
  const code = constantOf(schema, "code")
  return typeof code === "string" && /^[A-Z_]+$/.test(code) ? code : undefined
}

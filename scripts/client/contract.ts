/** The contract as the generated client sees it: operations with the shapes of their parts, and problems with their members. */
import { Context, Schema, SchemaAST } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import * as approvalProblems from "../../src/api/ApprovalProblems.ts"
import { Idempotent, RepeatableByKey } from "../../src/api/Middleware.ts"
import * as problems from "../../src/api/Problems.ts"
import { SessionEvent } from "../../src/api/SessionStream.ts"
import { type Field, type Shape, shapeOf } from "./shape.ts"

/** The parts of a request, in the order of the client's input. */
export const PARTS = ["params", "query", "headers", "payload"] as const
export type Part = (typeof PARTS)[number]

/** The content of a successful response: nothing, JSON, JSON Lines, or a session's events. */
export type Success =
  | { readonly kind: "nothing" | "events" }
  | { readonly kind: "json" | "lines"; readonly shape: Shape }

export interface Operation {
  readonly group: string
  readonly name: string
  /** The operation's name in the API reference, such as `decideApproval`. */
  readonly id: string
  readonly summary: string
  readonly description: string
  readonly method: string
  readonly path: string
  readonly parts: { readonly [P in Part]?: Shape }
  /** Whether the body may be left out. */
  readonly isPayloadOptional: boolean
  readonly status: number
  readonly success: Success
  /** The member of a page that holds its items; undefined if the operation does not list pages. */
  readonly items: string | undefined
  /** Codes of the operation's own problems, without the codes that every operation has. */
  readonly codes: ReadonlyArray<string>
  /** Whether the client adds an idempotency key. */
  readonly isIdempotent: boolean
}

export interface Group {
  readonly name: string
  readonly description: string
  readonly operations: Array<Operation>
}

const annotated = <Key>(annotations: Context.Context<never>, key: Context.Key<Key, string>): string =>
  Context.getOrUndefined(annotations, key) ?? ""

const NO_CONTENT = 204

type Successes = ReadonlyMap<number, readonly [Schema.Top, ...ReadonlyArray<Schema.Top>]>

/** The library lists a stream among the endpoint's responses only, not by status. */
const successOf = (
  endpoint: HttpApiEndpoint.Top,
  successes: Successes
): { readonly status: number; readonly success: Success } => {
  for (const response of endpoint.success) {
    const [mode, lines]: ReadonlyArray<unknown> = ["mode", "schema"].map((name) =>
      Reflect.get(response, name)
    )
    if (mode === "sse") return { status: 200, success: { kind: "events" } }
    if (mode === "ndjson" && Schema.isSchema(lines)) {
      return { status: 200, success: { kind: "lines", shape: shapeOf(lines.ast) } }
    }
  }
  const [[status, [schema]] = [NO_CONTENT, [Schema.Void]]] = successes
  return {
    status,
    success: SchemaAST.isVoid(schema.ast) ? { kind: "nothing" } : { kind: "json", shape: shapeOf(schema.ast) }
  }
}

const partsOf = (endpoint: HttpApiEndpoint.Top) => {
  const payloads = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  const [payload] = payloads.filter(({ ast }) => !SchemaAST.isVoid(ast))
  const { headers, params, query } = endpoint
  return {
    isPayloadOptional: payloads.length > 1,
    parts: {
      ...(params === undefined ? {} : { params: shapeOf(params.ast) }),
      ...(query === undefined ? {} : { query: shapeOf(query.ast) }),
      ...(headers === undefined ? {} : { headers: shapeOf(headers.ast) }),
      ...(payload === undefined ? {} : { payload: shapeOf(payload.ast) })
    }
  }
}

/** The items of a page are the list before its `next_cursor`. */
const itemsOf = (success: Success): string | undefined => {
  if (success.kind !== "json" || success.shape.kind !== "struct") return undefined
  const { fields } = success.shape
  const end = fields.findIndex(({ name }) => name === "next_cursor")
  return fields.slice(0, Math.max(end, 0)).findLast(({ shape }) => shape.kind === "array")?.name
}

export const groups: Array<Group> = []

HttpApi.reflect(Api, {
  onGroup: ({ group }) => {
    const description = annotated(group.annotations, OpenApi.Description)
    groups.push({ name: group.identifier, description, operations: [] })
  },
  onEndpoint: ({ endpoint, group, successes }) => {
    const { status, success } = successOf(endpoint, successes)
    groups.at(-1)?.operations.push({
      group: group.identifier,
      name: endpoint.identifier,
      id: annotated(endpoint.annotations, OpenApi.Identifier),
      summary: annotated(endpoint.annotations, OpenApi.Summary),
      description: annotated(endpoint.annotations, OpenApi.Description),
      method: endpoint.method,
      path: endpoint.path,
      ...partsOf(endpoint),
      status,
      success,
      items: itemsOf(success),
      codes: [...endpoint.error].map(({ ast }) => SchemaAST.resolveIdentifier(ast) ?? ""),
      isIdempotent: endpoint.middlewares.has(Idempotent) || Context.get(endpoint.annotations, RepeatableByKey)
    })
  }
})

export interface ProblemKind {
  /** The name of its class, such as `NotFound`. */
  readonly name: string
  readonly code: string
  readonly status: number
  readonly description: string
  /** The members that only this problem has. */
  readonly fields: ReadonlyArray<Field>
}

/** Members of every problem. The hand-written base class has them. */
const COMMON = new Set(["type", "title", "status", "detail", "instance", "code", "request_id", "errors"])

/** A problem's class is a declaration over the struct of its members. */
const problemOf = (name: string, ast: SchemaAST.AST): ProblemKind => {
  const struct = SchemaAST.isDeclaration(ast) ? ast.typeParameters[0] : undefined
  if (struct === undefined || !SchemaAST.isObjects(struct)) throw new Error(`${name} is not a problem`)
  const literal = (member: string) => {
    const property = struct.propertySignatures.find((property) => property.name === member)
    const type = property && SchemaAST.toType(property.type)
    return type && SchemaAST.isLiteral(type) ? type.literal : undefined
  }
  const shape = shapeOf(struct)
  return {
    name,
    code: String(literal("code")),
    status: Number(literal("status")),
    description: SchemaAST.resolveDescription(ast) ?? "",
    fields: shape.kind === "struct" ? shape.fields.filter(({ name }) => !COMMON.has(name)) : []
  }
}

export const problemKinds: ReadonlyArray<ProblemKind> = Object.entries({ ...problems, ...approvalProblems })
  .flatMap(([name, exported]) => (Schema.isSchema(exported) ? [problemOf(name, exported.ast)] : []))
  .toSorted((left, right) => (left.code < right.code ? -1 : 1))

/** The events of a session's stream. */
export const sessionEvent: Shape = shapeOf(SessionEvent.ast)

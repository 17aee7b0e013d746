/**
 * The shape of a value on the wire, read from its schema, as generators need it to write its type or its run-time
 * check.
 */
import { SchemaAST } from "effect"

export interface Field {
  readonly name: string
  readonly isOptional: boolean
  readonly description: string
  readonly shape: Shape
}

export type Shape =
  /** Text. With a prefix it is an identifier: the prefix, `_` and 32 hex digits. */
  | { readonly kind: "string"; readonly prefix: string | undefined }
  | { readonly kind: "number" | "boolean" | "null" | "time" | "redacted" }
  /** Any JSON, or any JSON object. */
  | { readonly kind: "json" | "object" }
  | { readonly kind: "literals"; readonly values: ReadonlyArray<string | number | boolean> }
  | { readonly kind: "array"; readonly item: Shape; readonly isNonEmpty: boolean }
  | { readonly kind: "record"; readonly value: Shape }
  | {
      readonly kind: "struct"
      readonly name: string | undefined
      readonly description: string
      readonly fields: ReadonlyArray<Field>
    }
  | {
      readonly kind: "union"
      readonly name: string | undefined
      readonly description: string
      readonly members: ReadonlyArray<Shape>
    }

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined

const IDENTIFIER = /^\^(\w+)_\[0-9a-f\]\{32\}\$$/

/** The prefix of identifiers, from the pattern that their schema checks. */
const prefixOf = (ast: SchemaAST.AST): string | undefined => {
  // A cursor is an identifier in code and opaque on the wire.
  if (ast.encoding !== undefined) return undefined
  for (const { annotations } of ast.checks ?? []) {
    const source = memberOf(memberOf(annotations?.["representation"], "payload"), "source")
    const [, prefix] = (typeof source === "string" && IDENTIFIER.exec(source)) || []
    if (prefix !== undefined) return prefix
  }
  return undefined
}

/** The kinds of values that are neither text, numbers, lists nor structures, by the identifier of their schema. */
const declarations: Readonly<Record<string, Shape>> = {
  "effect/schema/DateTimeUtc": { kind: "time" },
  "effect/schema/Json": { kind: "json" },
  "effect/schema/Redacted": { kind: "redacted" }
}

const declared = (ast: SchemaAST.Declaration): Shape => {
  const id = String(memberOf(ast.annotations?.["representation"], "id"))
  const shape = declarations[id]
  if (shape === undefined) throw new Error(`No shape for the declaration ${id}`)
  return shape
}

/** The description of a schema, whether it was given before or after its checks. */
const descriptionOf = (ast: SchemaAST.AST | undefined): string | undefined =>
  [...(ast?.checks ?? []).toReversed(), ...(ast === undefined ? [] : [ast])]
    .map(({ annotations }) => annotations?.["description"])
    .find((text) => typeof text === "string")

/** The description of a property: its own, or that of its wire form, which `timestamp` and cursors annotate. */
const describe = (ast: SchemaAST.AST): string => {
  const own = ast.context?.annotations?.["description"]
  const inner = SchemaAST.isDeclaration(ast) ? ast.typeParameters[0] : undefined
  const general = descriptionOf(ast.encoding?.at(-1)?.to) ?? descriptionOf(inner) ?? descriptionOf(ast) ?? ""
  if (typeof own !== "string") return general
  // The meanings of an enumeration's values.
  return general.startsWith("- ") ? `${own}\n\n${general}` : own
}

const structure = (ast: SchemaAST.Objects): Shape => {
  const [index] = ast.indexSignatures
  if (index !== undefined) {
    const value = shapeOf(index.type)
    return value.kind === "json" ? { kind: "object" } : { kind: "record", value }
  }
  return {
    kind: "struct",
    name: SchemaAST.resolveIdentifier(ast),
    description: descriptionOf(ast) ?? "",
    fields: ast.propertySignatures.map(({ name, type }) => ({
      name: String(name),
      isOptional: SchemaAST.isOptional(type),
      description: describe(type),
      shape: shapeOf(type)
    }))
  }
}

const union = (ast: SchemaAST.Union): Shape => {
  const values = ast.types.map((type) => (SchemaAST.isLiteral(type) ? type.literal : undefined))
  const known = values.filter((value) => value !== undefined && typeof value !== "bigint")
  if (known.length === ast.types.length) return { kind: "literals", values: known }
  return {
    kind: "union",
    name: SchemaAST.resolveIdentifier(ast),
    description: descriptionOf(ast) ?? "",
    members: ast.types.map(shapeOf)
  }
}

/** Returns the shape of a schema; throws for a schema that no operation uses yet. */
export const shapeOf = (ast: SchemaAST.AST): Shape => {
  switch (ast._tag) {
    case "String":
      return { kind: "string", prefix: prefixOf(ast) }
    case "Number":
      return { kind: "number" }
    case "Boolean":
      return { kind: "boolean" }
    case "Null":
      return { kind: "null" }
    case "Literal":
      if (typeof ast.literal !== "bigint") return { kind: "literals", values: [ast.literal] }
      break
    case "Union": {
      // The members that callers send, if it is decoded to more: such as evaluators of unknown kinds.
      const sent = ast.encoding?.at(-1)?.to
      return sent !== undefined && SchemaAST.isUnion(sent) ? shapeOf(sent) : union(ast)
    }
    case "Objects":
      return structure(ast)
    case "Arrays": {
      const [item] = [...ast.elements, ...ast.rest]
      if (item !== undefined) {
        return { kind: "array", item: shapeOf(item), isNonEmpty: ast.elements.length > 0 }
      }
      break
    }
    case "Declaration":
      return declared(ast)
    default:
      break
  }
  throw new Error(`No shape for the schema ${ast._tag}`)
}

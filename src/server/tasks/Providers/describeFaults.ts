import { JsonPointer, Redacted, type Schema } from "effect"
import { KnownValues } from "../../../domain/redaction/Redaction.ts"
import { redactFaults } from "../../../domain/redaction/Redaction/redactFaults.ts"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** Faults in a failure's text. */
const MAX_DESCRIBED_FAULTS = 3

/**
 * Describes faults without any text of the model server, which must not be stored or shown: a name that is not in the
 * schema is shown as `*`. The API key and headers, which the server knows, are removed too.
 */
export const describeFaults = (
  faults: ReadonlyArray<SchemaFault>,
  schema: JsonSchema,
  secrets: ReadonlyArray<Redacted.Redacted>
): string => {
  const known = memberNames(schema)
  const described = faults.slice(0, MAX_DESCRIBED_FAULTS).map(({ detail, pointer }) => ({
    detail,
    pointer: [
      "#",
      ...(JsonPointer.parseUriFragment(pointer) ?? []).map((name) => maskForeign(name, known))
    ].join("/")
  }))
  return redactFaults(described, new KnownValues(secrets.map(Redacted.value)))
    .map(({ detail, pointer }) => `${pointer} ${detail}`)
    .join("; ")
}

const maskForeign = (name: string, known: ReadonlySet<string>): string => {
  if (/^\d{1,6}$/.test(name)) return name
  return known.has(name) ? JsonPointer.formatUriFragment([name]).slice(2) : "*"
}

/** The names of all members of a schema: keywords and the names of properties. Recurses: the depth of a body is limited. */
const memberNames = (schema: JsonSchema): ReadonlySet<string> => {
  const names = new Set<string>()
  const collect = (part: Schema.Json): void => {
    if (typeof part !== "object" || part === null) return
    if (!Array.isArray(part)) for (const name of Object.keys(part)) names.add(name)
    Object.values(part).forEach(collect)
  }
  collect(schema)
  return names
}

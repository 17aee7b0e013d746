import type { JsonSchema } from "../../src/domain/tasks/Task.ts"

/** A small schema that validates an object some 2^`levels` times, because each definition references the next one twice. */
export const exponentialSchema = (levels: number): JsonSchema => {
  const to = (level: number) => ({ $ref: `#/$defs/d${level}` })
  const $defs = Object.fromEntries(
    Array.from({ length: levels }, (_, level) => [`d${level}`, { allOf: [to(level + 1), to(level + 1)] }])
  )
  return { type: "object", allOf: [to(0)], $defs: { ...$defs, [`d${levels}`]: {} } }
}

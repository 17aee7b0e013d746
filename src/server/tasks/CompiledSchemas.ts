import { Context, Effect, Layer, Result, type Schema } from "effect"
import { InvalidSchema } from "../../api/Problems.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import {
  type CompiledSchema,
  compileSchema,
  schemaDigest,
  type SchemaFault
} from "../../domain/tasks/CompiledSchema.ts"
import { LruCache } from "../concurrency/LruCache.ts"

export type { CompiledSchema } from "../../domain/tasks/CompiledSchema.ts"

/**
 * Limits of the cache: compiled schemas, and the text of all of them together. A small compiled schema takes 14 KiB of memory and a large
 * one seven times its text, so a full cache takes some 50 MB.
 */
const MAX_CACHED_SCHEMAS = 1_000
const MAX_CACHED_BYTES = 4 * 1024 * 1024

/** Compiles the input and answer schemas of tasks, and caches them by digest. */
export class CompiledSchemas extends Context.Service<
  CompiledSchemas,
  {
    /**
     * Compiles a schema from a request. `at` is the schema's JSON pointer within the request, such as `#/answer_schema`; the problem's
     * pointers start with it.
     */
    readonly compile: (schema: Schema.Json, at?: string) => Effect.Effect<CompiledSchema, InvalidSchema>
    /**
     * Returns a stored schema, which was compiled before it was stored, by the digest stored beside it. Runs `load` only on a cache miss.
     */
    readonly get: <E, R>(
      digest: string,
      load: Effect.Effect<Schema.Json, E, R>
    ) => Effect.Effect<CompiledSchema, E, R>
  }
>()("countersign/server/tasks/CompiledSchemas") {
  static readonly layer = Layer.effect(
    CompiledSchemas,
    Effect.map(Effect.context<never>(), (context) => {
      const cache = new LruCache<CompiledSchema>({ entries: MAX_CACHED_SCHEMAS, weight: MAX_CACHED_BYTES })
      const run = Effect.runForkWith(context)

      const compileAndCache = (schema: Schema.Json): Result.Result<CompiledSchema, SchemaFault> => {
        const compiled = compileSchema(schema, (error, digest) => {
          run(Effect.logError(`Defect while validating against schema ${digest}`, withoutMessage(error)))
        })
        if (Result.isSuccess(compiled)) {
          const { bytes, digest } = compiled.success
          cache.set(digest, compiled.success, bytes)
        }
        return compiled
      }

      return CompiledSchemas.of({
        compile: (schema, at = "#") =>
          Effect.suspend(() => {
            const cached = cache.get(schemaDigest(schema))
            if (cached !== undefined) return Effect.succeed(cached)
            return Effect.mapError(Effect.fromResult(compileAndCache(schema)), ({ detail, pointer }) => {
              const errors = redactFaults([{ pointer: at + pointer.slice(1), detail }])
              return new InvalidSchema({ detail, errors })
            })
          }),
        get: (digest, load) =>
          Effect.suspend(() => {
            const cached = cache.get(digest)
            if (cached !== undefined) return Effect.succeed(cached)
            return Effect.flatMap(load, (schema) => Effect.orDie(Effect.fromResult(compileAndCache(schema))))
          })
      })
    })
  )
}

/** An error's type and stack. Its message can name a field of the value, which can be a secret. */
const withoutMessage = (error: unknown): string => {
  if (!(error instanceof Error)) return typeof error
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at ")) ?? []
  return [error.constructor.name, ...frames].join("\n")
}

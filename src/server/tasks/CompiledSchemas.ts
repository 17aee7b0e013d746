import { Context, Effect, Layer, Result, type Schema } from "effect"
import { InvalidSchema } from "../../api/Problems.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import {
  compileSchema,
  type CompiledSchema,
  schemaDigest,
  type SchemaFault
} from "../../domain/tasks/CompiledSchema.ts"
import { LruCache } from "../concurrency/LruCache.ts"

export type { CompiledSchema } from "../../domain/tasks/CompiledSchema.ts"

/**
 * Compiled shapes that one process keeps: how many, and how much text their schemas may have together. A small one takes 14 KiB of
 * memory, a large one seven times its text, so that all take some 50 MB at most.
 */
const MAX_CACHED_SCHEMAS = 1_000
const MAX_CACHED_BYTES = 4 * 1024 * 1024

/** The shapes of tasks' inputs and answers, compiled once and kept by their digest. */
export class CompiledSchemas extends Context.Service<
  CompiledSchemas,
  {
    /**
     * A schema that a user gives, compiled. `at` is its pointer within the request, such as `#/answer_schema`; the problem names the
     * place in it.
     */
    readonly compile: (schema: Schema.Json, at?: string) => Effect.Effect<CompiledSchema, InvalidSchema>
    /**
     * The shape of a schema that was compiled before it was stored, by the digest that stands beside it: `load` is run only where this
     * process does not keep it.
     */
    readonly get: <E, R>(
      digest: string,
      load: Effect.Effect<Schema.Json, E, R>
    ) => Effect.Effect<CompiledSchema, E, R>
  }
>()("countersign/server/tasks/CompiledSchemas") {
  static readonly layer = Layer.sync(CompiledSchemas, () => {
    const kept = new LruCache<CompiledSchema>({ entries: MAX_CACHED_SCHEMAS, weight: MAX_CACHED_BYTES })

    const make = (schema: Schema.Json): Result.Result<CompiledSchema, SchemaFault> => {
      const compiled = compileSchema(schema)
      if (Result.isSuccess(compiled)) {
        const { bytes, digest } = compiled.success
        kept.set(digest, compiled.success, bytes)
      }
      return compiled
    }

    return CompiledSchemas.of({
      compile: (schema, at = "#") =>
        Effect.suspend(() => {
          const shape = kept.get(schemaDigest(schema))
          if (shape !== undefined) return Effect.succeed(shape)
          return Effect.mapError(Effect.fromResult(make(schema)), ({ detail, pointer }) => {
            const errors = redactFaults([{ pointer: at + pointer.slice(1), detail }])
            return new InvalidSchema({ detail, errors })
          })
        }),
      get: (digest, load) =>
        Effect.suspend(() => {
          const shape = kept.get(digest)
          if (shape !== undefined) return Effect.succeed(shape)
          return Effect.flatMap(load, (schema) => Effect.orDie(Effect.fromResult(make(schema))))
        })
    })
  })
}

import { Context, Effect, Layer, Option, Result, type Schema } from "effect"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import { InvalidSchema } from "../../api/Problems.ts"
import { describeFirst } from "../../domain/describeIssue.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import {
  type CompiledSchema,
  compileInSteps,
  schemaDigest,
  type SchemaFault
} from "../../domain/tasks/CompiledSchema.ts"
import { LoopTurns, nextTurnOrYield } from "../admission/LoopTurns.ts"
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

      const onDefect = (error: unknown, digest: string) => {
        run(Effect.logError(`Defect while validating against schema ${digest}`, withoutMessage(error)))
      }

      /**
       * Compiles step by step, so that other requests are served in between. The organization's next turn is delayed
       * for it.
       */
      const compileAndCache = Effect.fnUntraced(function* (
        schema: Schema.Json
      ): Effect.fn.Return<Result.Result<CompiledSchema, SchemaFault>> {
        const turns = yield* LoopTurns
        const principal = yield* Effect.serviceOption(CurrentPrincipal)
        const steps = compileInSteps(schema, { onDefect })
        for (;;) {
          const start = performance.now()
          const step = steps.next()
          if (Option.isSome(principal)) turns.charge(principal.value.org_id, performance.now() - start)
          if (step.done !== true) {
            yield* nextTurnOrYield
            continue
          }
          if (Result.isSuccess(step.value)) {
            const { bytes, digest } = step.value.success
            cache.set(digest, step.value.success, bytes)
          }
          return step.value
        }
      })

      return CompiledSchemas.of({
        compile: (schema, at = "#") =>
          Effect.suspend(() => {
            const cached = cache.get(schemaDigest(schema))
            if (cached !== undefined) return Effect.succeed(cached)
            return Effect.mapError(
              Effect.flatMap(compileAndCache(schema), Effect.fromResult),
              ({ detail, pointer }) => {
                const errors = redactFaults([{ pointer: at + pointer.slice(1), detail }])
                return new InvalidSchema({
                  detail: `The schema is invalid: ${describeFirst(errors)}`,
                  errors
                })
              }
            )
          }),
        get: (digest, load) =>
          Effect.suspend(() => {
            const cached = cache.get(digest)
            if (cached !== undefined) return Effect.succeed(cached)
            return Effect.flatMap(load, (schema) =>
              Effect.orDie(Effect.flatMap(compileAndCache(schema), Effect.fromResult))
            )
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

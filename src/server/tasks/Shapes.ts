import { Context, Effect, Layer, Result, type Schema } from "effect"
import { InvalidSchema } from "../../api/Problems.ts"
import { withoutSecrets } from "../../domain/redaction/Redaction/faults.ts"
import { compile, type Shape, shapeDigest, type ShapeFault } from "../../domain/tasks/Shape.ts"
import { LruCache } from "../concurrency/LruCache.ts"

export type { Shape } from "../../domain/tasks/Shape.ts"

/**
 * Compiled shapes that one process keeps: how many, and how much text their schemas may have together. A small one takes 14 KiB of
 * memory, a large one seven times its text, so that all take some 50 MB at most.
 */
const KEPT_SHAPES = 1_000
const KEPT_BYTES = 4 * 1024 * 1024

/** The shapes of tasks' inputs and answers, compiled once and kept by their digest. */
export class Shapes extends Context.Service<
  Shapes,
  {
    /**
     * A schema that a user gives, compiled. `at` is its pointer within the request, such as `#/answer_schema`; the problem names the
     * place in it.
     */
    readonly compile: (schema: Schema.Json, at?: string) => Effect.Effect<Shape, InvalidSchema>
    /**
     * The shape of a schema that was compiled before it was stored, by the digest that stands beside it: `load` is run only where this
     * process does not keep it.
     */
    readonly stored: <E, R>(
      digest: string,
      load: Effect.Effect<Schema.Json, E, R>
    ) => Effect.Effect<Shape, E, R>
  }
>()("countersign/server/tasks/Shapes") {
  static readonly layer = Layer.sync(Shapes, () => {
    const kept = new LruCache<Shape>({ entries: KEPT_SHAPES, weight: KEPT_BYTES })

    const make = (schema: Schema.Json): Result.Result<Shape, ShapeFault> => {
      const compiled = compile(schema)
      if (Result.isSuccess(compiled)) {
        const { bytes, digest } = compiled.success
        kept.set(digest, compiled.success, bytes)
      }
      return compiled
    }

    return Shapes.of({
      compile: (schema, at = "#") =>
        Effect.suspend(() => {
          const shape = kept.get(shapeDigest(schema))
          if (shape !== undefined) return Effect.succeed(shape)
          return Effect.mapError(Effect.fromResult(make(schema)), ({ detail, pointer }) => {
            const errors = withoutSecrets([{ pointer: at + pointer.slice(1), detail }])
            return new InvalidSchema({ detail, errors })
          })
        }),
      stored: (digest, load) =>
        Effect.suspend(() => {
          const shape = kept.get(digest)
          if (shape !== undefined) return Effect.succeed(shape)
          return Effect.flatMap(load, (schema) => Effect.orDie(Effect.fromResult(make(schema))))
        })
    })
  })
}

import { Effect, Layer } from "effect"
import { Countersign } from "../../src/testing/index.ts"

/**
 * A process with a service of `countersign/testing` over a temporary database. It prints a line when the service
 * listens, and never ends.
 */
await Effect.runPromise(
  Layer.launch(
    Layer.effectDiscard(
      Effect.map(Countersign, ({ url }) => process.stdout.write(`listening on ${url}\n`))
    ).pipe(Layer.provide(Countersign.layer()))
  )
)

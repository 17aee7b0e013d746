import { Context, type Duration, Effect, Layer } from "effect"

/**
 * Whether the service is stopping. It still serves requests, but `/readyz` fails and responses close their connections,
 * so that load balancers and clients switch to another replica.
 */
export class Stopping extends Context.Service<Stopping, { isStopping: boolean }>()(
  "countersign/server/http/Stopping"
) {
  static readonly layer = Layer.sync(Stopping, () => ({ isStopping: false }))
}

/**
 * When its scope closes, marks the service as stopping and waits for `delay`, during which the service still serves. It
 * must be built last, because shutdown runs in reverse order.
 */
export const layerStopDelay = (delay: Duration.Duration): Layer.Layer<never, never, Stopping> =>
  Layer.effectDiscard(
    Effect.flatMap(Stopping, (state) =>
      Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => {
            state.isStopping = true
          }),
          Effect.sleep(delay)
        )
      )
    )
  )

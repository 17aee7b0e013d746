import { Context, Effect, Layer, Scope } from "effect"

/** The prefix of the keys of middleware. */
const MIDDLEWARE = "countersign/api/"

/**
 * Builds the handlers of operations in a context of these services, which the handlers take, and of the middleware. Each request copies the
 * context that its handler was built in: with all services in it, that took a tenth of the processor time of a small request. If a service
 * is missing here, the layer fails with a defect.
 */
export const layerHandlers = <Out, E, R>(
  handlers: Layer.Layer<Out, E, R>,
  services: ReadonlyArray<{ readonly key: string }>
): Layer.Layer<Out, E, Exclude<R, Scope.Scope>> => {
  const keys = new Set([Scope.Scope.key, ...services.map(({ key }) => key)])
  const reduce = (context: Context.Context<R | Scope.Scope>): Context.Context<R | Scope.Scope> =>
    Context.makeUnsafe(
      new Map([...context.mapUnsafe].filter(([key]) => keys.has(key) || key.startsWith(MIDDLEWARE)))
    )
  return Layer.effectContext(Effect.updateContext(Layer.build(handlers), reduce))
}

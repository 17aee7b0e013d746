import { Clock, Context, Layer } from "effect"

/** The process's own clock, whatever clock the current fiber has. */
export const processClock: Clock.Clock = Context.get(Context.empty(), Clock.Clock)

/**
 * Builds a layer on the process's clock, so that its time-outs and pauses pass by themselves. Under a `TestClock` a connection pool would
 * otherwise wait forever.
 */
export const layerProcessClock: Layer.Layer<never> = Layer.succeed(Clock.Clock, processClock)

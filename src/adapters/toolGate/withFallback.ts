/** Names of the callbacks that frameworks call. */
const CALLBACK = /^(?:before|after|on)[A-Z]/u

/**
 * Returns the callbacks with all others that a framework's base class has, which do nothing: frameworks call each callback of an object without
 * asking whether it is there, also members that later versions add.
 */
export const withFallback = <Callbacks extends object>(
  callbacks: Callbacks,
  fallback: () => Promise<unknown>
): Callbacks =>
  new Proxy(callbacks, {
    get: (target, key): unknown =>
      !Reflect.has(target, key) && typeof key === "string" && CALLBACK.test(key)
        ? fallback
        : Reflect.get(target, key)
  })

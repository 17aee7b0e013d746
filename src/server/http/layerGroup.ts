import { Context, Effect, Layer, Scope } from "effect"
import { type HttpApi, HttpApiBuilder, type HttpApiGroup } from "effect/http-api"

/** A service or a middleware, by the key that it has in a context. */
interface Keyed {
  readonly key: string
}

/** The part of an API that names the middleware of its operations. */
interface WithMiddleware {
  readonly groups: Readonly<
    Record<
      string,
      { readonly endpoints: Readonly<Record<string, { readonly middlewares: ReadonlySet<Keyed> }>> }
    >
  >
}

/** Services, by the names under which handlers take them. */
type Services = Readonly<Record<string, Context.Key<unknown, unknown>>>
type Shapes<S extends Services> = { readonly [Name in keyof S]: S[Name]["Service"] }

/**
 * The handlers of a group of operations: `handle` adds them all, with the services that they take. They are built in a
 * context of just these services and the group's middleware, because each request copies the context of its handler.
 * With all services in it, that took a tenth of the processor time of a small request.
 */
export const layerGroup = <
  ApiId extends string,
  Groups extends HttpApiGroup.Constraint,
  const Name extends HttpApiGroup.Identifier<Groups>,
  S extends Services,
  Return
>(
  api: HttpApi.HttpApi<ApiId, Groups> & WithMiddleware,
  name: Name,
  services: S,
  handle: (
    handlers: HttpApiBuilder.Handlers.FromGroup<HttpApiGroup.WithIdentifier<Groups, Name>>,
    services: Shapes<S>
  ) => HttpApiBuilder.Handlers.ValidateReturn<Return>
): Layer.Layer<
  HttpApiGroup.Service<ApiId, Name>,
  HttpApiBuilder.Handlers.Error<Return>,
  Exclude<HttpApiBuilder.Handlers.Context<Return>, Scope.Scope> | S[keyof S]["Identifier"]
> => {
  const { groups }: WithMiddleware = api
  const middleware = Object.values(groups[name]?.endpoints ?? {}).flatMap(({ middlewares }) => [
    ...middlewares
  ])
  const keys = new Set([Scope.Scope, ...middleware, ...Object.values(services)].map(({ key }) => key))
  return Layer.effectContext(
    Effect.contextWith((context: Context.Context<S[keyof S]["Identifier"]>) => {
      const taken = Object.entries(services).map(([as, service]) => [as, Context.get(context, service)])
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each service under its own name
      const shapes = Object.fromEntries(taken) as Shapes<S>
      const built = HttpApiBuilder.group<ApiId, Groups, Name, Return>(api, name, (handlers) =>
        handle(handlers, shapes)
      )
      return Effect.updateContext(Layer.build(built), ({ mapUnsafe }) =>
        Context.makeUnsafe(new Map([...mapUnsafe].filter(([key]) => keys.has(key))))
      )
    })
  )
}

/** The handlers of the operations that only the console calls: each takes the input apart, calls one method and shapes the response. */
import { Effect, Layer } from "effect"
import { HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import { STREAM_HEADERS } from "../../approvals/sseFrames.ts"
import { layerGroup } from "../../http/layerGroup.ts"
import { People } from "../../identity/People.ts"
import { RateLimits } from "../../admission/RateLimits.ts"
import { Playground } from "../../tasks/Playground.ts"
import { RunList } from "../../tasks/RunList.ts"
import { TaskList } from "../../tasks/TaskList.ts"
import { AgreementHistory } from "../AgreementHistory.ts"
import { ApprovalFeed } from "../ApprovalFeed.ts"
import { AuditRows } from "../AuditRows.ts"
import { ClosedApprovals } from "../ClosedApprovals.ts"
import { ConsoleDeliveries } from "../ConsoleDeliveries.ts"
import { ConsoleSessions } from "../ConsoleSessions.ts"
import { DatasetChanges } from "../DatasetChanges.ts"
import { DeliveryHealth } from "../DeliveryHealth.ts"
import { FeedbackList } from "../FeedbackList.ts"
import { Overview } from "../Overview.ts"
import { ReviewerAnswerList } from "../ReviewerAnswerList.ts"
import { Search } from "../Search.ts"

/** Requests of the rate limits that one search counts as: it examines thousands of rows. */
const REQUESTS_PER_SEARCH = 5

/** The handlers of the console, by group, without its session and its exports. */
export const layerConsoleHandlers = Layer.mergeAll(
  layerGroup(ConsoleApi, "sign_ins", { sessions: ConsoleSessions }, (handlers, { sessions }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.flatMap(CurrentPrincipal, (principal) =>
          Effect.map(sessions.list(principal, query), ({ items, next_cursor }) => ({
            sessions: items,
            next_cursor
          }))
        ),
      end: ({ params }) => Effect.flatMap(CurrentPrincipal, (principal) => sessions.end(principal, params.id))
    })
  ),
  layerGroup(ConsoleApi, "inbox", { feed: ApprovalFeed }, (handlers, { feed }) =>
    handlers.handleAll({
      list: ({ query }) => feed.list(query),
      get: ({ params }) => feed.get(params.id),
      context: ({ params }) => feed.context(params.id),
      compare: ({ payload }) => Effect.map(feed.compare(payload.approval_ids), (items) => ({ items })),
      count: () => feed.count,
      stream: () =>
        Effect.map(feed.open, (events) =>
          // The feed encodes its frames itself, once for all subscribers.
          HttpServerResponse.stream(events, {
            contentType: "text/event-stream",
            headers: STREAM_HEADERS
          })
        )
    })
  ),
  layerGroup(ConsoleApi, "health", { health: DeliveryHealth }, (handlers, { health }) =>
    handlers.handleAll({
      get: ({ params }) => Effect.map(health.hourly(params.id), (buckets) => ({ buckets }))
    })
  ),
  layerGroup(ConsoleApi, "deliveries", { deliveries: ConsoleDeliveries }, (handlers, { deliveries }) =>
    handlers.handleAll({
      list: ({ query }) => deliveries.list(query),
      get: ({ params }) => deliveries.get(params),
      batches: ({ query }) => deliveries.batches(query),
      health: () => Effect.map(deliveries.health, (endpoints) => ({ endpoints })),
      countFailed: ({ params, query }) => deliveries.countFailed({ ...params, ...query }),
      retryNow: ({ params }) => deliveries.retryNow(params.endpoint_id),
      replay: ({ payload }) => Effect.map(deliveries.replay(payload.deliveries), (results) => ({ results }))
    })
  ),
  layerGroup(ConsoleApi, "dataset_changes", { changes: DatasetChanges }, (handlers, { changes }) =>
    handlers.handleAll({
      get: ({ params, query }) => changes.between(params.id, query.since)
    })
  ),
  layerGroup(ConsoleApi, "search", { search: Search, limits: RateLimits }, (handlers, { search, limits }) =>
    handlers.handleAll({
      find: Effect.fnUntraced(function* ({ query }) {
        const principal = yield* CurrentPrincipal
        yield* limits.charge(principal, REQUESTS_PER_SEARCH - 1)
        return yield* search.find(principal, query)
      })
    })
  ),
  layerGroup(ConsoleApi, "overview", { overview: Overview }, (handlers, { overview }) =>
    handlers.handleAll({
      approvals: ({ query }) => overview.approvals(query.period),
      feedback: ({ query }) => overview.feedback(query.period),
      deliveries: ({ query }) => overview.deliveries(query.period),
      alerts: () => Effect.flatMap(CurrentPrincipal, overview.alerts)
    })
  ),
  layerGroup(ConsoleApi, "feedback_rows", { rows: FeedbackList }, (handlers, { rows }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ feedback: items, next_cursor }))
    })
  ),
  layerGroup(ConsoleApi, "closed_approvals", { closed: ClosedApprovals }, (handlers, { closed }) =>
    handlers.handleAll({ list: ({ query }) => closed.list(query) })
  ),
  layerGroup(ConsoleApi, "audit_rows", { rows: AuditRows }, (handlers, { rows }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ entries: items, next_cursor })),
      actors: () => Effect.map(rows.actors, (actors) => ({ actors }))
    })
  ),
  layerGroup(ConsoleApi, "reviewer_answers", { rows: ReviewerAnswerList }, (handlers, { rows }) =>
    handlers.handleAll({
      list: ({ params, query }) =>
        Effect.map(rows.list(params.task_id, query), ({ items, next_cursor }) => ({
          answers: items,
          next_cursor
        }))
    })
  ),
  layerGroup(ConsoleApi, "run_rows", { rows: RunList }, (handlers, { rows }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ runs: items, next_cursor }))
    })
  ),
  layerGroup(
    ConsoleApi,
    "people",
    { people: People, sessions: ConsoleSessions },
    (handlers, { people, sessions }) => {
      /** Ends the sessions of a person of the organization, not of others. */
      const endSessions = Effect.fnUntraced(function* (id: Parameters<typeof people.get>[0]) {
        yield* people.get(id)
        return yield* sessions.endAllOf(yield* CurrentPrincipal, id)
      })

      return handlers.handleAll({
        list: ({ query }) =>
          Effect.map(people.list(query), ({ items, next_cursor }) => ({ people: items, next_cursor })),
        get: ({ params }) => people.get(params.id),
        end_sessions: ({ params }) => Effect.map(endSessions(params.id), (ended) => ({ ended })),
        block: Effect.fnUntraced(function* ({ params, query }) {
          yield* people.block(params.id, { made_keys: query.made_keys ?? "revoke" })
          yield* endSessions(params.id)
          return yield* people.get(params.id)
        }),
        unblock: ({ params }) => people.unblock(params.id)
      })
    }
  ),
  layerGroup(ConsoleApi, "task_rows", { rows: TaskList }, (handlers, { rows }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.map(rows.list(query), ({ items, next_cursor }) => ({ tasks: items, next_cursor }))
    })
  ),
  layerGroup(ConsoleApi, "playground", { playground: Playground }, (handlers, { playground }) =>
    handlers.handleAll({
      answer: ({ params, payload }) => playground.answer(params.id, payload)
    })
  ),
  layerGroup(ConsoleApi, "agreement", { history: AgreementHistory }, (handlers, { history }) =>
    handlers.handleAll({
      history: ({ params }) => Effect.map(history.read(params.id), (releases) => ({ releases }))
    })
  )
)

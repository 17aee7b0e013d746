import { DateTime, Effect, Schema } from "effect"
import { Atom } from "effect/reactivity"
import {
  DeliveredEventType,
  type DeliveryFilter,
  type LoggedDelivery,
  LoggedDeliveryStatus,
  ResponseCode
} from "../../../api/console/Deliveries.ts"
import { type DeliveryId, EndpointId } from "../../../domain/Ids.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery, QueryDay, type QueryState, startOfDay } from "../../state/queryState.ts"

const fields = {
  status: LoggedDeliveryStatus,
  code: Schema.FiniteFromString.pipe(Schema.decodeTo(ResponseCode)),
  type: DeliveredEventType,
  endpoint: EndpointId,
  from: QueryDay,
  to: QueryDay
}
export type DeliveryQueryFields = typeof fields

/** The filters of the log in its address. */
export const deliveryQuery = defineQuery(fields)

/** Whether a log shows less than everything. */
export const isFiltered = (query: QueryState<DeliveryQueryFields>): boolean =>
  Object.values(query).some((value) => value !== undefined)

/** The filter of a query, as the service takes it. */
const toFilter = (search: string): DeliveryFilter => {
  const { code, endpoint, from, status, to, type } = deliveryQuery.read(search)
  return {
    ...(status === undefined ? {} : { status }),
    ...(code === undefined ? {} : { code }),
    ...(type === undefined ? {} : { type }),
    ...(endpoint === undefined ? {} : { endpoint_id: endpoint }),
    ...(from === undefined ? {} : { since: startOfDay(from) }),
    ...(to === undefined ? {} : { until: startOfDay(to, 1) })
  }
}

/** The filter of a query as the query of an export. */
export const exportFilter = (search: string): Readonly<Record<string, string | undefined>> => {
  const { code, since, until, ...others } = toFilter(search)
  return {
    ...others,
    code: code?.toString(),
    since: since === undefined ? undefined : DateTime.formatIso(since),
    until: until === undefined ? undefined : DateTime.formatIso(until)
  }
}

/** Loads a page of a filtered log, by its query. */
export const loadDeliveries = (search: string, cursor?: DeliveryId) =>
  consoleClient.deliveries.list({
    query: { ...toFilter(search), ...(cursor === undefined ? {} : { cursor }) }
  })

/** The newest page of a filtered log, by its query: what changes while the log is open. */
export const newestDeliveriesAtom = Atom.family((search: string) => Atom.make(loadDeliveries(search)))

/** The pages of a filtered log, by its query. Each item is a page, which also tells how far it has searched. */
export const deliveryPagesAtom = Atom.family((search: string) =>
  pagedAtom(
    (cursor: DeliveryId | undefined) =>
      Effect.map(loadDeliveries(search, cursor), (page) => ({
        pages: [page],
        next_cursor: page.next_cursor
      })),
    "pages"
  )
)

/** The address of a delivery's page. */
export const deliveryPath = ({ endpoint_id, id }: LoggedDelivery): string =>
  `/endpoints/${endpoint_id}/deliveries/${id}`

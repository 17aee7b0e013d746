import { type Store, Table, type Transaction } from "../core/Store.ts"

/** A row of `agent_sessions`. Times are milliseconds since the Unix epoch. */
export interface SessionEntry {
  readonly org_id: string
  readonly session_id: string
  readonly task_id: string | null
  readonly trace_id: string
  readonly metadata: string
  readonly created_at: number
  readonly created_by_id: string
  readonly created_by_name: string
  readonly closed_at: number | null
  readonly last_event: number
  readonly proposals_until: number | null
  readonly grants_until: number | null
}

/** A row of `governed_steps`. */
export interface StepEntry {
  readonly org_id: string
  readonly session_id: string
  readonly step_id: string
  readonly task_id: string | null
  readonly tool: string
  readonly action_class: string
  readonly arguments: string | null
  readonly arguments_digest: string
  readonly rule_id: string | null
  readonly decision: string
  readonly reason: string
  readonly approval_id: string | null
  readonly proposal_approval_id: string | null
  readonly grant_id: string | null
  readonly requested_by_id: string
  readonly requested_at: number
  readonly last_decision: string | null
  readonly outcome_status: string | null
  readonly outcome_at: number | null
}

/** The columns of `approvals` that transitions change. */
export interface ApprovalStateColumns {
  readonly status: string
  readonly stage: string
  readonly expires_at: number
  readonly expiring_notified: boolean
  readonly escalated_at: number | null
  /** JSON text. */
  readonly votes: string | null
  readonly approvals_given: number
  readonly outcome: string | null
  readonly decision_source: string | null
  readonly decided_at: number | null
  readonly decided_by_id: string | null
  readonly decided_by_name: string | null
  readonly comment: string | null
  readonly next_due_at: number | null
}

/** A row of `approvals`. */
export interface ApprovalEntry extends ApprovalStateColumns {
  readonly org_id: string
  readonly approval_id: string
  readonly session_id: string
  readonly step_id: string
  readonly task_id: string | null
  readonly tool: string
  readonly action_class: string
  readonly arguments: string | null
  readonly arguments_bytes: number
  readonly arguments_digest: string
  readonly rule_summary: string | null
  readonly agent_summary: string | null
  readonly telling_arguments: string | null
  readonly requested_at: number
  readonly requested_by_id: string
  readonly review_deadline_at: number
  readonly escalation_deadline_at: number | null
  readonly expiring_seconds: number | null
  readonly timeout_action: string
  readonly self_approval: boolean
  /** JSON text. */
  readonly quorum: string | null
  readonly approvals_required: number
  /** JSON text. */
  readonly proposed_arguments: string | null
  readonly proposed_digest: string | null
  /** JSON text. */
  readonly proposed_by: string | null
  readonly proposal_expires_at: number | null
  readonly proposal_step_id: string | null
}

/** A row of `grants`. */
export interface GrantEntry {
  readonly org_id: string
  readonly grant_id: string
  readonly session_id: string
  readonly approval_id: string
  readonly step_id: string
  readonly scope: string
  readonly tool: string
  readonly action_class: string
  readonly content_digest: string | null
  /** JSON text. */
  readonly conditions: string
  readonly reason: string
  readonly uses: number
  readonly max_uses: number | null
  readonly last_used_at: number | null
  readonly created_at: number
  readonly created_by_id: string
  readonly created_by_name: string
  readonly expires_at: number
  readonly ended_at: number | null
  readonly end_reason: string | null
  readonly revoked_by_id: string | null
  readonly revoked_by_name: string | null
}

/** A row of `session_events`. */
export interface EventEntry {
  readonly org_id: string
  readonly session_id: string
  readonly number: number
  readonly type: string
  readonly step_id: string | null
  readonly data: string
}

/** A row of `approval_rules`. `rules` is JSON text. */
export interface RulesEntry {
  readonly org_id: string
  readonly revision: number
  readonly rules: string
}

/** A row of `notification_endpoints`; `version` stands for `xmin`. */
export interface EndpointEntry {
  readonly org_id: string
  readonly endpoint_id: string
  readonly events: ReadonlyArray<string>
  readonly active: boolean
  readonly version: string
}

/** A row of `approval_events`. */
export interface NotificationEntry {
  readonly org_id: string
  readonly event_id: string
  readonly type: string
  readonly approval_id: string | null
}

/** A row of `delivery_queue`, with that of `deliveries`, which is inserted with it. */
export interface DeliveryEntry {
  readonly org_id: string
  readonly destination_id: string
  readonly delivery_id: string
  readonly event_id: string
  readonly label: string
  readonly seq: number
}

/** A row of `audit_log`. */
export interface AuditEntry {
  readonly org_id: string
  readonly entry_id: string
  readonly action: string
  readonly target_id: string
  readonly actor_id: string | null
}

/** A row before and after a transaction; undefined: there was none. */
export interface Change<Row> {
  readonly before: Row | undefined
  readonly after: Row
}

/** Everything that one transaction has committed. */
export interface Commit {
  /** When the transaction began and when it committed, in milliseconds of the simulation. */
  readonly from: number
  readonly at: number
  readonly sessions: ReadonlyArray<Change<SessionEntry>>
  readonly steps: ReadonlyArray<Change<StepEntry>>
  readonly approvals: ReadonlyArray<Change<ApprovalEntry>>
  readonly grants: ReadonlyArray<Change<GrantEntry>>
  /** In the order of insertion. */
  readonly events: ReadonlyArray<EventEntry>
  readonly notifications: ReadonlyArray<NotificationEntry>
  readonly deliveries: ReadonlyArray<DeliveryEntry>
  readonly audits: ReadonlyArray<AuditEntry>
  readonly rules: ReadonlyArray<Change<RulesEntry>>
  readonly endpoints: ReadonlyArray<Change<EndpointEntry>>
}

/** The rows of one table that a transaction has written. */
type Written<Row> = Map<string, Change<Row>>

/** What a transaction has written so far. */
interface Writes {
  readonly sessions: Written<SessionEntry>
  readonly steps: Written<StepEntry>
  readonly approvals: Written<ApprovalEntry>
  readonly grants: Written<GrantEntry>
  readonly rules: Written<RulesEntry>
  readonly endpoints: Written<EndpointEntry>
  readonly events: Array<EventEntry>
  readonly notifications: Array<NotificationEntry>
  readonly deliveries: Array<DeliveryEntry>
  readonly audits: Array<AuditEntry>
}

export const sessionKey = (row: { readonly org_id: string; readonly session_id: string }): string =>
  `${row.org_id} ${row.session_id}`

export const stepKey = (row: {
  readonly org_id: string
  readonly session_id: string
  readonly step_id: string
}): string => `${row.org_id} ${row.session_id} ${row.step_id}`

export const approvalKey = (row: { readonly org_id: string; readonly approval_id: string }): string =>
  `${row.org_id} ${row.approval_id}`

export const grantKey = (row: { readonly org_id: string; readonly grant_id: string }): string =>
  `${row.org_id} ${row.grant_id}`

/** The tables of approvals, sessions and their notifications in the model of the store. */
export class ApprovalModel {
  readonly store: Store
  readonly sessions = new Table<SessionEntry>("agent_sessions")
  readonly steps = new Table<StepEntry>("governed_steps", sessionKey)
  readonly approvals = new Table<ApprovalEntry>("approvals", sessionKey)
  readonly grants = new Table<GrantEntry>("grants", sessionKey)
  readonly events = new Table<EventEntry>("session_events", sessionKey)
  readonly rules = new Table<RulesEntry>("approval_rules")
  readonly endpoints = new Table<EndpointEntry>("notification_endpoints", (row) => row.org_id)
  readonly notifications = new Table<NotificationEntry>("approval_events")
  readonly deliveries = new Table<DeliveryEntry>("delivery_queue", (row) => row.destination_id)
  readonly audits = new Table<AuditEntry>("audit_log")
  /** Sees each transaction that has written something, right after its commit. */
  committed: (commit: Commit) => void = () => {}
  /** Sends NOTIFY when the transaction commits. */
  notify: (transaction: Transaction, channel: string, payloads: ReadonlyArray<string>) => void = () => {}
  readonly #writes = new WeakMap<Transaction, Writes>()

  constructor(store: Store) {
    this.store = store
  }

  writeSession(transaction: Transaction, row: SessionEntry): void {
    this.#write(transaction, this.sessions, this.#of(transaction).sessions, sessionKey(row), row)
  }

  writeStep(transaction: Transaction, row: StepEntry): void {
    this.#write(transaction, this.steps, this.#of(transaction).steps, stepKey(row), row)
  }

  writeApproval(transaction: Transaction, row: ApprovalEntry): void {
    this.#write(transaction, this.approvals, this.#of(transaction).approvals, approvalKey(row), row)
  }

  writeGrant(transaction: Transaction, row: GrantEntry): void {
    this.#write(transaction, this.grants, this.#of(transaction).grants, grantKey(row), row)
  }

  writeRules(transaction: Transaction, row: RulesEntry): void {
    this.#write(transaction, this.rules, this.#of(transaction).rules, row.org_id, row)
  }

  writeEndpoint(transaction: Transaction, row: EndpointEntry): void {
    this.#write(
      transaction,
      this.endpoints,
      this.#of(transaction).endpoints,
      `${row.org_id} ${row.endpoint_id}`,
      row
    )
  }

  insertEvent(transaction: Transaction, row: EventEntry): void {
    this.#insert(transaction, this.events, `${sessionKey(row)} ${row.number}`, row)
    this.#of(transaction).events.push(row)
  }

  insertNotification(transaction: Transaction, row: NotificationEntry): void {
    this.#insert(transaction, this.notifications, row.event_id, row)
    this.#of(transaction).notifications.push(row)
  }

  insertDelivery(transaction: Transaction, row: Omit<DeliveryEntry, "seq">): DeliveryEntry {
    const entry = { ...row, seq: this.store.nextval("delivery_queue") }
    this.#insert(transaction, this.deliveries, row.delivery_id, entry)
    this.#of(transaction).deliveries.push(entry)
    return entry
  }

  insertAudit(transaction: Transaction, row: AuditEntry): void {
    this.#insert(transaction, this.audits, row.entry_id, row)
    this.#of(transaction).audits.push(row)
  }

  /** The active endpoints of an organization that subscribe to an event type, in order of id, as the statement sees them. */
  subscribers(transaction: Transaction, org_id: string, type: string): ReadonlyArray<EndpointEntry> {
    return [...transaction.scan(this.endpoints, org_id)]
      .map(([, row]) => row)
      .filter((row) => row.active && row.events.includes(type))
      .toSorted((a, b) => (a.endpoint_id < b.endpoint_id ? -1 : 1))
  }

  #write<Row>(
    transaction: Transaction,
    table: Table<Row>,
    written: Written<Row>,
    key: string,
    after: Row
  ): void {
    const before = written.has(key) ? written.get(key)?.before : table.committedRow(key)
    written.set(key, { before, after })
    transaction.write(table, key, after)
  }

  /** Inserts a row of a table in which no row is changed. */
  #insert<Row>(transaction: Transaction, table: Table<Row>, key: string, row: Row): void {
    if (table.cells.has(key)) throw new Error(`Duplicate key in ${table.name}: ${key}`)
    transaction.write(table, key, row)
  }

  #of(transaction: Transaction): Writes {
    const known = this.#writes.get(transaction)
    if (known !== undefined) return known
    const writes: Writes = {
      sessions: new Map(),
      steps: new Map(),
      approvals: new Map(),
      grants: new Map(),
      rules: new Map(),
      endpoints: new Map(),
      events: [],
      notifications: [],
      deliveries: [],
      audits: []
    }
    this.#writes.set(transaction, writes)
    transaction.onCommit(() =>
      this.committed({
        ...writes,
        from: transaction.beganAt,
        at: this.store.simulation.now,
        sessions: [...writes.sessions.values()],
        steps: [...writes.steps.values()],
        approvals: [...writes.approvals.values()],
        grants: [...writes.grants.values()],
        rules: [...writes.rules.values()],
        endpoints: [...writes.endpoints.values()]
      })
    )
    return writes
  }
}

// The rooms, in the order of the navigation. `key` is pressed after "g".

import { openAcls } from "./rooms/acls.js";
import { openAudit } from "./rooms/audit.js";
import { openCluster } from "./rooms/cluster.js";
import { openDead } from "./rooms/dead.js";
import { openDelayed } from "./rooms/delayed.js";
import { openGroups } from "./rooms/groups.js";
import { openOverview } from "./rooms/overview.js";
import { openQueues } from "./rooms/queues.js";
import { openQuotas } from "./rooms/quotas.js";
import { openSchemas } from "./rooms/schemas.js";
import { openTenants } from "./rooms/tenants.js";
import { openTopics } from "./rooms/topics.js";
import { openTraces } from "./rooms/traces.js";
import { openTransactions } from "./rooms/transactions.js";
import { openUsers } from "./rooms/users.js";

export const ROOMS = [
  { path: "", title: "Overview", key: "o", section: "Node", open: openOverview },
  { path: "cluster", title: "Cluster", key: "c", section: "Node", open: openCluster },
  { path: "topics", title: "Topics", key: "t", section: "Messages", open: openTopics },
  { path: "groups", title: "Groups", key: "g", section: "Messages", open: openGroups },
  { path: "queues", title: "Queues", key: "q", section: "Messages", open: openQueues },
  { path: "delayed", title: "Delayed", key: "d", section: "Messages", open: openDelayed },
  { path: "dead", title: "Dead letters", key: "l", section: "Messages", open: openDead },
  { path: "transactions", title: "Transactions", key: "x", section: "Messages", open: openTransactions },
  { path: "schemas", title: "Schemas", key: "s", section: "Messages", open: openSchemas },
  { path: "traces", title: "Traces", key: "r", section: "Messages", open: openTraces },
  { path: "users", title: "Users and keys", key: "u", section: "Access", open: openUsers },
  { path: "acls", title: "Rules", key: "a", section: "Access", open: openAcls },
  { path: "quotas", title: "Quotas", key: "k", section: "Access", open: openQuotas },
  { path: "tenants", title: "Tenants", key: "n", section: "Access", open: openTenants },
  { path: "audit", title: "Audit", key: "i", section: "Access", open: openAudit },
];

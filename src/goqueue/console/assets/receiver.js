// A consumer in the page: takes messages of a topic for a group, one poll at a time, and leaves when the room is left.

import { call } from "./api.js";

const LEASE = "2m"; // time for a person to read; who closes the page loses it with the session

export class Receiver {
  constructor(group, topic) {
    Object.assign(this, { group, topic, member: null, generation: 0 });
  }

  async join() {
    const body = { client_id: "console", topics: [this.topic], ...(this.member ? { member_id: this.member } : {}) };
    const join = (mode) => call("POST /groups/{group}/join", { params: { group: this.group }, body: { ...body, mode, auto_commit: false } });
    const joined = await join("shared").catch((error) => (error.code === "inconsistent-protocol" ? join("partition") : Promise.reject(error)));
    [this.member, this.generation] = [joined.member_id, joined.generation];
  }

  /** Up to `limit` messages, each under a lease. */
  async take(limit = 1) {
    if (this.member === null) {
      await this.join();
    }
    for (let tries = 0; tries < 4; tries += 1) {
      try {
        const found = await call("GET /groups/{group}/poll", { params: { group: this.group }, query: { member_id: this.member, generation: this.generation, limit, timeout: "1s", visibility_timeout: LEASE } });
        if (found.messages.length || !found.rebalance) {
          return found.messages;
        }
        await this.beat();
      } catch (error) {
        if (error.code === "unknown-member") {
          await this.join();
        } else if (error.code === "illegal-generation") {
          await this.beat();
        } else {
          throw error;
        }
      }
    }
    return [];
  }

  async beat() {
    const told = await call("POST /groups/{group}/heartbeat", { params: { group: this.group }, body: { member_id: this.member, generation: this.generation } });
    this.generation = told.generation;
  }

  /** While the page is looked at, the group's other members see one who lives, and its leases stay. */
  async keep() {
    if (this.member !== null) {
      await this.beat().catch(() => {}); // the next poll says what is wrong, and joins again
    }
  }

  leave() {
    if (this.member !== null) {
      call("POST /groups/{group}/leave", { params: { group: this.group }, body: { member_id: this.member } }).catch(() => {});
      this.member = null;
    }
  }
}

/* SPDX-License-Identifier: MIT */
/* Sleeping together and waking: nobody is missed, and nobody is woken for nothing more than once. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "wait.h"
#include "net/parker.h"

enum { LONG_MS = 20000 };

struct sleeping {
	struct parking *parking;
	struct parker parker;
	pthread_t thread;
	bool leads, in_time;
};

static void *sleep_once(void *arg) {
	struct sleeping *sleeping = arg;
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), LONG_MS);
	struct sleep sleep = snecki_parker_lie_down(&sleeping->parker, sleeping->parking);

	sleeping->leads = snecki_parker_sleep(&sleeping->parker, sleep, deadline_ns);
	sleeping->in_time = snecki_now_ns() < deadline_ns;
	return NULL;
}

static void begin(struct sleeping *sleeping, struct parking *parking) {
	*sleeping = (struct sleeping){ .parking = parking };
	snecki_parker_init(&sleeping->parker);
	assert_int_equal(pthread_create(&sleeping->thread, NULL, sleep_once, sleeping), 0);
	assert_true(WAIT_UNTIL(
	        atomic_load(&sleeping->parker.state) & (PARKER_PARKED | PARKER_TOGETHER), LONG_MS));
}

static void end(struct sleeping *sleeping) {
	assert_int_equal(pthread_join(sleeping->thread, NULL), 0);
	assert_true(sleeping->in_time);
}

static void those_of_one_batch_wake(void **state) {
	(void)state;
	struct parking parking = { 0 };
	struct wakes wakes = { 0 };
	static struct sleeping all[100]; /* at four words */

	for (int i = 0; i < 100; i++)
		begin(&all[i], &parking);
	for (int i = 0; i < 100; i++)
		snecki_parker_wake_with(&all[i].parker, &wakes);
	assert_int_equal(wakes.words, 0xf);
	snecki_wakes_send(&wakes);
	assert_int_equal(wakes.words, 0);
	for (int i = 0; i < 100; i++) {
		end(&all[i]);
		assert_true(snecki_parker_ready(&all[i].parker));
		assert_false(all[i].leads);
	}
}

/* Whoever else lies at this place is called. */
static void disturb(struct parking *parking, uint32_t place) {
	struct sleeper other = { .parking = parking, .place = place, .own = &parking->next };
	snecki_sleeper_wake(&other);
}

static void who_is_woken_for_another_goes_on_alone(void **state) {
	(void)state;
	struct parking parking = { .next = PARKING_PLACES + 77 };
	struct sleeping sleeping;

	begin(&sleeping, &parking);
	assert_int_equal(atomic_load(&sleeping.parker.place), 77);
	disturb(&parking, 78); /* of the same word, at another place */
	assert_true(WAIT_UNTIL(
	        (disturb(&parking, 77), atomic_load(&sleeping.parker.state) == PARKER_PARKED), LONG_MS));
	struct wakes wakes = { 0 };
	snecki_parker_wake_with(&sleeping.parker, &wakes);
	assert_int_equal(wakes.words, 0); /* nobody is disturbed for it */
	end(&sleeping);
	assert_int_equal(atomic_load(&sleeping.parker.state), PARKER_READY);
}

/* Whoever has just looked where it sleeps is held up; meanwhile its time is over, and it goes to sleep again.
 */
static void who_lies_down_again_is_found_where_it_lay(void **state) {
	(void)state;
	struct parking parking = { 0 };
	struct sleeping sleeping = { .parking = &parking };
	struct parker *parker = &sleeping.parker;

	snecki_parker_init(parker);
	struct sleep first = snecki_parker_lie_down(parker, &parking);
	struct sleeper looked = {
		.parking = &parking, .place = atomic_load(&parker->place), .own = &parker->state
	};
	uint32_t seen = atomic_load(&parker->state);
	assert_false(snecki_parker_sleep(parker, first, 0));
	assert_int_equal(pthread_create(&sleeping.thread, NULL, sleep_once, &sleeping), 0);
	assert_true(WAIT_UNTIL(atomic_load(&parker->state) == seen, LONG_MS)); /* as if nothing had been */
	atomic_fetch_or(&parker->state, PARKER_READY);
	snecki_sleeper_wake(&looked);
	end(&sleeping);
}

static void the_role_is_handed_to_who_sleeps(void **state) {
	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		struct parking parking = { 0 };
		struct sleeping sleeping;
		struct sleeper sleeper;
		struct parker awake;

		snecki_parker_init(&awake);
		assert_false(snecki_parker_hand_role(&awake, &sleeper));
		begin(&sleeping, alone ? NULL : &parking);
		assert_true(snecki_parker_hand_role(&sleeping.parker, &sleeper));
		assert_true(alone ? !sleeper.parking : sleeper.parking == &parking);
		snecki_sleeper_wake(&sleeper);
		end(&sleeping);
		assert_true(sleeping.leads);
		assert_int_equal(atomic_load(&sleeping.parker.state), 0);
		atomic_fetch_or(&awake.state, PARKER_PARKED | PARKER_READY);
		assert_false(snecki_parker_hand_role(&awake, &sleeper)); /* it is about to leave */
	}
}

static void a_time_limit_ends_it(void **state) {
	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		struct parking parking = { 0 };
		struct parker parker;
		snecki_parker_init(&parker);
		int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), 5);
		struct sleep sleep = snecki_parker_lie_down(&parker, alone ? NULL : &parking);
		assert_false(snecki_parker_sleep(&parker, sleep, deadline_ns));
		assert_true(snecki_now_ns() >= deadline_ns);
		assert_int_equal(atomic_load(&parker.state), 0);
	}
}

static void who_is_called_on_the_way_to_sleep_does_not_sleep(void **state) {
	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		struct parking parking = { 0 };
		struct parker parker;
		snecki_parker_init(&parker);
		int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), 5000);
		struct sleep sleep = snecki_parker_lie_down(&parker, alone ? NULL : &parking);
		snecki_parker_wake(&parker);
		assert_false(snecki_parker_sleep(&parker, sleep, deadline_ns));
		assert_true(snecki_now_ns() < deadline_ns);
		assert_int_equal(atomic_load(&parker.state), PARKER_READY);
	}
}

/* ---- Nobody is missed -----------------------------------------------------------------------*/

enum { PLAYERS = 40, TURNS = 1000 }; /* at two words */

struct player {
	struct parking *parking;
	_Atomic(struct parker *) waits; /* for the one who wakes */
	pthread_t thread;
	bool missed;
};

static void *play(void *arg) {
	struct player *player = arg;

	for (int i = 0; i < TURNS && !player->missed; i++) {
		struct parker parker;
		int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), LONG_MS);
		snecki_parker_init(&parker);
		atomic_store(&player->waits, &parker);
		struct sleep sleep = snecki_parker_lie_down(&parker, player->parking);
		(void)snecki_parker_sleep(&parker, sleep, deadline_ns);
		player->missed = snecki_now_ns() >= deadline_ns;
		while (!snecki_parker_ready(&parker)) /* it is still in use */
			sched_yield();
	}
	return NULL;
}

static void nobody_is_missed(void **state) {
	(void)state;
	struct parking parking = { .next = UINT32_MAX - 5 * PLAYERS }; /* it begins anew meanwhile */
	static struct player players[PLAYERS];
	int left = PLAYERS * TURNS;

	for (int i = 0; i < PLAYERS; i++) {
		players[i] = (struct player){ .parking = &parking };
		assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
	}
	while (left > 0) {
		struct wakes wakes = { 0 };
		for (int i = 0; i < PLAYERS; i++) {
			struct parker *parker = atomic_exchange(&players[i].waits, NULL);
			if (!parker)
				continue;
			snecki_parker_wake_with(parker, &wakes);
			left--;
		}
		snecki_wakes_send(&wakes);
	}
	for (int i = 0; i < PLAYERS; i++) {
		assert_int_equal(pthread_join(players[i].thread, NULL), 0);
		assert_false(players[i].missed);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_of_one_batch_wake),
		cmocka_unit_test(who_is_woken_for_another_goes_on_alone),
		cmocka_unit_test(who_lies_down_again_is_found_where_it_lay),
		cmocka_unit_test(the_role_is_handed_to_who_sleeps),
		cmocka_unit_test(a_time_limit_ends_it),
		cmocka_unit_test(who_is_called_on_the_way_to_sleep_does_not_sleep),
		cmocka_unit_test(nobody_is_missed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

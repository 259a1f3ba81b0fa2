#!/bin/sh
exec test/t-order

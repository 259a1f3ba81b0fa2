#!/bin/sh
exec test/t-augment
